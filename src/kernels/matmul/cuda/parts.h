#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "runtime/cuda/cuda_device.h"

/// float32 numbers as sums of three bfloat16, which together have all of its 24 bits. Of the nine
/// products of two such sums the six largest leave out less than 2^-25 of the product.
namespace sluice::kernels::matmul::cuda {

/// Products of parts that count, one behind the other in the depth.
inline constexpr std::int64_t kPartProducts = 6;

/// A matrix [rows, columns] whose parts are wanted: of each `chunk` of its depth kPartProducts
/// blocks of that depth, such that the product of the blocks of a left and a right factor is that
/// of the chunk, the smallest terms first. Zeros stand where the wanted extent goes beyond the
/// matrix.
struct SplitMatrix {
  const float* from;
  std::int64_t stride;         ///< numbers from a row to the next
  std::int64_t rows, columns;  ///< that there are
  std::int64_t to_rows;        ///< that are wanted
  std::int64_t to_columns;     ///< a multiple of 8
  std::int64_t chunk;          ///< a multiple of 8, divides the wanted depth
  bool depth_in_rows;          ///< the depth runs from row to row, else along them
  /// Out: [to_rows, to_columns / chunk, 6, chunk], or [to_rows / chunk, 6, chunk, to_columns] if
  /// the depth runs from row to row; 16-byte aligned.
  __nv_bfloat16* to;
};
/// Queues both. Of an infinity or NaN the first part is that, and the others are zero. Parts are
/// exact down to 2^-110; smaller numbers keep what 2^-133 divides.
void split(runtime::cuda::CudaStream& stream, const SplitMatrix& left, const SplitMatrix& right);

/// c = beta * c + the sum of `count` matrices `step` numbers apart (+ bias on every row).
struct AddSums {
  const float* sums;    ///< [count, rows, stride]
  std::int64_t stride;  ///< numbers from a row to the next
  std::int64_t step;
  std::int64_t count;
  std::int64_t rows, columns;
  float* c;  ///< not read if beta is 0
  std::int64_t c_stride;
  float beta;
  const float* bias;  ///< [columns], or null
};
void add_sums(runtime::cuda::CudaStream& stream, const AddSums& args);

}  // namespace sluice::kernels::matmul::cuda
