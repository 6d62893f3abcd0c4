#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// For .cu files only.
namespace sluice::runtime::cuda {

/// Values beside each other that one access of memory reads or writes, or several of 16 bytes.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Neighbours {
  T at[kCount];
};

/// A word of so many bytes: of 16 where it is a multiple of them.
template <std::size_t kBytes>
__device__ auto word_of() {
  if constexpr (kBytes % 16 == 0) {
    return uint4{};
  } else if constexpr (kBytes == 8) {
    return uint2{};
  } else if constexpr (kBytes == 4) {
    return 0u;
  } else {
    static_assert(kBytes == 2);
    return static_cast<unsigned short>(0);
  }
}

/// Writes neighbours to global memory, aligned as they are. By an assignment the compiler stores
/// members of 16 bits one by one, which takes many times as long.
template <typename T, int kCount>
__device__ void store_neighbours(T* to, const Neighbours<T, kCount>& values) {
  using Word = decltype(word_of<sizeof(values)>());
#pragma unroll
  for (std::size_t i = 0; i < sizeof(values) / sizeof(Word); ++i) {
    Word word;
    memcpy(&word, reinterpret_cast<const std::byte*>(values.at) + i * sizeof(Word), sizeof(Word));
    __stwb(reinterpret_cast<Word*>(to) + i, word);
  }
}

}  // namespace sluice::runtime::cuda
