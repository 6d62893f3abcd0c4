#pragma once

#include <cstdint>

/// Transposing in registers, in the compiler's own vectors. Always inlined, so that files compiled
/// for different instruction sets share no copy of it.
namespace sluice::kernels {

/// The lower halves of two vectors, lane by lane in turn, and the upper halves.
template <int kLanes, typename V>
[[gnu::always_inline]] inline void interleave(const V& a, const V& b, V& low, V& high) {
  if constexpr (kLanes == 2) {
    low = __builtin_shufflevector(a, b, 0, 2);
    high = __builtin_shufflevector(a, b, 1, 3);
  } else if constexpr (kLanes == 4) {
    low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else if constexpr (kLanes == 8) {
    low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    static_assert(kLanes == 16);
    low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high =
        __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
}

/// to[i, k] = from[k, i] for a square of kLanes, with strides in elements.
template <int kLanes, typename Element>
[[gnu::always_inline]] inline void transpose_square(const Element* from, std::int64_t from_stride,
                                                    Element* to, std::int64_t to_stride) {
  typedef Element V __attribute__((vector_size(kLanes * sizeof(Element))));
  V rows[kLanes], mixed[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) __builtin_memcpy(&rows[i], from + i * from_stride, sizeof(V));
    // Each round halves the distance between neighbours of a column, until they lie side by side.
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      interleave<kLanes>(rows[i], rows[i + kLanes / 2], mixed[2 * i], mixed[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = mixed[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) __builtin_memcpy(to + i * to_stride, &rows[i], sizeof(V));
}

/// The same for any depth (rows of `from`) and columns; squares where they fit.
template <int kLanes, typename Element>
[[gnu::always_inline]] inline void transpose_all(const Element* from, std::int64_t from_stride,
                                                 std::int64_t depth, std::int64_t columns,
                                                 Element* to, std::int64_t to_stride) {
  for (std::int64_t k = 0; k < depth; k += kLanes) {
    const std::int64_t k_end = k + kLanes < depth ? k + kLanes : depth;
    for (std::int64_t i = 0; i < columns; i += kLanes) {
      const std::int64_t i_end = i + kLanes < columns ? i + kLanes : columns;
      if (k_end - k == kLanes && i_end - i == kLanes) {
        transpose_square<kLanes>(from + k * from_stride + i, from_stride, to + i * to_stride + k,
                                 to_stride);
        continue;
      }
      for (std::int64_t column = i; column < i_end; ++column) {
        for (std::int64_t row = k; row < k_end; ++row) {
          to[column * to_stride + row] = from[row * from_stride + column];
        }
      }
    }
  }
}

}  // namespace sluice::kernels
