#pragma once

#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/storage.h"

/// For .cu files only: what kernels that store float32 as scaled float16 have in common.
namespace sluice::kernels::recurrent::cuda {

/// Numbers that a thread reads and scales at once.
inline constexpr int kFactorGroup = 8;
using FactorGroup = Neighbours<float, kFactorGroup>;

/// The larger of `bits`, a magnitude's, and those of a group.
__device__ inline unsigned larger_bits(unsigned bits, const FactorGroup& group) {
  // Bits of positive numbers compare as the numbers do.
#pragma unroll
  for (const float number : group.at) bits = max(bits, __float_as_uint(fabsf(number)));
  return bits;
}

/// The largest of all threads' bits, in a block of 32 warps.
__device__ inline unsigned largest_of_block(unsigned bits, unsigned warp, unsigned lane) {
  __shared__ unsigned of_warps[32];
  bits = __reduce_max_sync(~0u, bits);
  if (lane == 0) of_warps[warp] = bits;
  __syncthreads();
  return __reduce_max_sync(~0u, of_warps[lane]);
}

/// Writes group * up.
__device__ inline void store_scaled(__half* to, const FactorGroup& group, float up) {
  Neighbours<__half, kFactorGroup> scaled;
#pragma unroll
  for (int i = 0; i < kFactorGroup; ++i) store(scaled.at + i, group.at[i] * up);
  store_neighbours(to, scaled);
}

}  // namespace sluice::kernels::recurrent::cuda
