#pragma once

#include "kernels/matmul/cpu/f32_leaf.h"
#include "kernels/transpose.h"

namespace sluice::kernels::matmul::cpu {

/// The leaf written once for vectors of W elements. Files compiled for different instruction sets
/// use different W, so that the linker can't hand one file's code to another.
template <int W>
struct F32Body {
  typedef float V __attribute__((vector_size(W * sizeof(float))));

  static constexpr std::int64_t kColumns = 2 * W;
  /// Sums of a tile, the two vectors of b and one element of a fill the 32 registers of AVX-512, or
  /// the 16 of others.
  static constexpr int kRows = W == 16 ? 14 : 6;

  static V load(const float* from) {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }

  static void pack_rows(const F32Source& source, float* out) {
    if (source.depth_first) {
      return transpose_all<W>(source.data, source.stride, source.depth, source.lines, out,
                              kF32RowStride);
    }
    for (std::int64_t line = 0; line < source.lines; ++line) {
      __builtin_memcpy(out + line * kF32RowStride, source.data + line * source.stride,
                       static_cast<std::size_t>(source.depth) * sizeof(float));
    }
  }

  static void pack_panel(const F32Source& source, std::int64_t first, std::int64_t count,
                         float* out) {
    if (count < kColumns) {
      __builtin_memset(out, 0, static_cast<std::size_t>(source.depth * kColumns) * sizeof(float));
    }
    if (!source.depth_first) {
      return transpose_all<W>(source.data + first * source.stride, source.stride, count,
                              source.depth, out, kColumns);
    }
    for (std::int64_t k = 0; k < source.depth; ++k) {
      const float* from = source.data + k * source.stride + first;
      float* to = out + k * kColumns;
      if (count == kColumns) {
        __builtin_memcpy(to, from, kColumns * sizeof(float));
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
      }
    }
  }

  static void pack_columns(const F32Source& source, float* out) {
    for (std::int64_t first = 0; first < source.lines; first += kColumns) {
      const std::int64_t left = source.lines - first;
      pack_panel(source, first, left < kColumns ? left : kColumns, out);
      out += source.depth * kColumns;
    }
  }

  /// kCount rows, kVectors of a panel's two vectors.
  template <int kCount, int kVectors>
  static void tile(const float* a, const float* b, const F32Block& block, float* c,
                   std::int64_t ldc) {
    V sums[kCount][kVectors] = {};
#pragma GCC unroll 16
    for (int row = 0; row < kCount; ++row) {
      __builtin_prefetch(c + row * ldc, 1);
      if constexpr (kVectors == 2) __builtin_prefetch(c + row * ldc + W, 1);
    }
    for (std::int64_t k = 0; k < block.depth; ++k) {
      V right[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) right[v] = load(b + k * kColumns + v * W);
#pragma GCC unroll 16
      for (int row = 0; row < kCount; ++row) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[row][v] += a[row * kF32RowStride + k] * right[v];
      }
    }
    const auto put = [&](const auto& value_of) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int row = 0; row < kCount; ++row) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          float* to = c + row * ldc + v * W;
          const V value = value_of(to, sums[row][v]);
          __builtin_memcpy(to, &value, sizeof value);
        }
      }
    };
    const float alpha = block.alpha;
    if (block.accumulate) {
      put([=](const float* at, V sum)
              __attribute__((always_inline)) { return load(at) + alpha * sum; });
    } else {
      put([=](const float*, V sum) __attribute__((always_inline)) { return alpha * sum; });
    }
  }

  /// A tile of `count` rows, 1 to kMost.
  template <int kMost, int kVectors>
  static void tile_of(int count, const float* a, const float* b, const F32Block& block, float* c,
                      std::int64_t ldc) {
    if (count == kMost) return tile<kMost, kVectors>(a, b, block, c, ldc);
    if constexpr (kMost > 1) tile_of<kMost - 1, kVectors>(count, a, b, block, c, ldc);
  }

  /// A tile at the right edge, by way of a buffer that has all columns.
  static void edge(int count, const float* a, const float* b, const F32Block& block, float* c,
                   std::int64_t columns) {
    alignas(64) float buffer[kRows * kColumns] = {};
    for (int row = 0; block.accumulate && row < count; ++row) {
      for (std::int64_t i = 0; i < columns; ++i)
        buffer[row * kColumns + i] = c[row * block.ldc + i];
    }
    if (columns <= W) {
      tile_of<kRows, 1>(count, a, b, block, buffer, kColumns);
    } else {
      tile_of<kRows, 2>(count, a, b, block, buffer, kColumns);
    }
    for (int row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < columns; ++i)
        c[row * block.ldc + i] = buffer[row * kColumns + i];
    }
  }

  /// All rows for one panel, in tiles of nearly the same size.
  static void panel(const F32Block& block, const float* b, float* c, std::int64_t columns) {
    const std::int64_t tiles = (block.rows + kRows - 1) / kRows;
    const float* a = block.a;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const int count = static_cast<int>(block.rows / tiles + (i < block.rows % tiles ? 1 : 0));
      if (columns == kColumns) {
        tile_of<kRows, 2>(count, a, b, block, c, block.ldc);
      } else {
        edge(count, a, b, block, c, columns);
      }
      a += count * kF32RowStride;
      c += count * block.ldc;
    }
  }

  static void multiply(const F32Block& block) {
    const float* b = block.b;
    for (std::int64_t first = 0; first < block.columns; first += kColumns) {
      const std::int64_t left = block.columns - first;
      panel(block, b, block.c + first, left < kColumns ? left : kColumns);
      b += block.depth * kColumns;
    }
  }

  static constexpr F32Leaf leaf() { return {kColumns, &pack_rows, &pack_columns, &multiply}; }
};

}  // namespace sluice::kernels::matmul::cpu
