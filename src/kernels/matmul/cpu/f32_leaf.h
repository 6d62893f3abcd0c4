#pragma once

#include <cstdint>

/// What an instruction set must provide for products of float32 matrices. gemm_f32.cpp cuts a
/// product into blocks that fit in caches and packs them; a leaf packs and multiplies one.
namespace sluice::kernels::matmul::cpu {

/// Most of the depth that is summed in one go; then the sums go into c.
inline constexpr std::int64_t kF32Depth = 512;
/// Distance of packed rows: rows of a tile must not all meet in the same places of a cache.
inline constexpr std::int64_t kF32RowStride = kF32Depth + 16;

/// A block of an operand, stored [lines, depth], or [depth, lines] if depth_first; a line is a row
/// of op(a) or a column of op(b).
struct F32Source {
  const float* data;
  std::int64_t stride;  ///< between stored rows
  bool depth_first;
  std::int64_t lines, depth;
};

/// c[rows, columns] = alpha * a * b, added to what c holds if `accumulate`.
struct F32Block {
  const float* a;  ///< packed rows
  const float* b;  ///< packed columns
  std::int64_t rows, columns, depth;
  float alpha;
  bool accumulate;
  float* c;
  std::int64_t ldc;
};

/// An element of c has the same bits wherever it lies in a block: its sum runs over the depth in
/// rising order, in one accumulator.
struct F32Leaf {
  std::int64_t columns;  ///< of a packed panel
  /// out[line * kF32RowStride + k]
  void (*pack_rows)(const F32Source&, float* out);
  /// Panels [depth, columns], one after another; zero in what the last one has too many.
  void (*pack_columns)(const F32Source&, float* out);
  void (*multiply)(const F32Block&);
};

/// Vectors of the baseline instruction set, whatever that is.
const F32Leaf& portable_f32_leaf();
/// Null where this processor has not AVX2 and FMA, or not AVX-512 F. Both give the same bits.
const F32Leaf* avx2_f32_leaf();
const F32Leaf* avx512_f32_leaf();

}  // namespace sluice::kernels::matmul::cpu
