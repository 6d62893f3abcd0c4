#pragma once

#include <cstdint>

#include "kernels/pooling/pooling.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::pooling::cuda {

using runtime::cuda::narrowed;
using runtime::cuda::Wide;
using runtime::cuda::widened;

inline constexpr int kBlock = 256;

/// The extent of x, with the lengths of its rows.
struct Extent {
  std::int64_t time, rows, features;
  const std::int32_t* lengths;  ///< or null: all steps count

  Extent(const Tensor& x, const Tensor& row_lengths)
      : time(x.size(0)),
        rows(x.size(1)),
        features(x.size(2)),
        lengths(row_lengths.data_as<const std::int32_t>()) {}

  __device__ std::int64_t length(std::int64_t row) const {
    return lengths == nullptr ? time : lengths[row];
  }
  /// Elements from one step to the next.
  __host__ __device__ std::int64_t step() const { return rows * features; }
  __host__ __device__ std::int64_t elements() const { return time * rows * features; }
};

__device__ inline std::int64_t first_of_grid() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_stride() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace sluice::kernels::pooling::cuda
