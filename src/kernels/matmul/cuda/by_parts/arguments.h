#pragma once

#include <cstdint>

/// One kernel for products of float32 on Hopper's tensor cores, each number as a sum of three
/// bfloat16 (split.h). A block has a tile of c; of a part of the depth, where the depth is split.
/// Two warpgroups multiply: each splits its own 64 rows of the left factor in registers. The third
/// splits the right factor's columns into shared memory, some stages ahead.
namespace sluice::kernels::matmul::cuda::by_parts {

inline constexpr int kTile = 128;  ///< rows and columns of a block's tile
/// Of the depth that lies in a stage of shared memory: a line of 128 bytes a column and part.
inline constexpr int kStageDepth = 64;

/// A left factor op(a) [extent, k] or a right one, the transpose of [extent, k].
struct Factor {
  const float* data;
  std::int64_t stride;  ///< numbers from a row to the next
  bool depth_in_rows;   ///< data are [k, extent], else [extent, k]
  /// Pairs of numbers may be read at a time (left), or fours along the depth (right).
  bool aligned;
};

/// c = alpha * op(a) * op(b) + beta * c (+ bias on every row).
struct Arguments {
  Factor left, right;
  int m, n, k;
  int split_depth;  ///< of the depth that a block adds up: a multiple of kStageDepth
  int splits;       ///< until all of it is
  float* c;         ///< split i has one of its own, `c_step` numbers behind that of the one before
  std::int64_t c_stride, c_step;
  bool c_aligned;  ///< pairs of numbers may be written at a time
  float alpha, beta;
  const float* bias;  ///< [n], or null
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
