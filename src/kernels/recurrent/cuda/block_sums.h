#pragma once

#include <cstdint>

#include "runtime/cuda/reduce.h"

/// Sums over a block of threads, in an order that depends on nothing.
namespace sluice::kernels::recurrent::cuda {

inline constexpr int kRowBlock = 256;  ///< threads that share a row

/// Each thread's values become the block's sums. All threads take part.
template <int kCount>
__device__ void block_sums(float (&values)[kCount]) {
  constexpr int kWarps = kRowBlock / 32;
  __shared__ float partial[kWarps][kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    values[k] = runtime::cuda::combine_warp(values[k], runtime::cuda::Add{});
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32][k] = values[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    values[k] = 0;
    for (int warp = 0; warp < kWarps; ++warp) values[k] += partial[warp][k];
  }
  __syncthreads();  // the next sums write there
}

/// Calls body(i) for this thread's part of [0, count).
template <typename Body>
__device__ void for_own(std::int64_t count, const Body& body) {
  for (std::int64_t i = threadIdx.x; i < count; i += kRowBlock) body(i);
}

}  // namespace sluice::kernels::recurrent::cuda
