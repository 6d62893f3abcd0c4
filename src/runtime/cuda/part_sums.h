#pragma once

#include <cstdint>

#include "runtime/cuda/reduce.h"

/// Sums of which many blocks have left a part each, for .cu files.
namespace sluice::runtime::cuda {

/// A block that adds parts up has a warp's width of numbers, and each of its warps every so many
/// parts.
inline constexpr int kPartTeams = 8, kPartThreads = kPartTeams * kWarp;

/// The sum of a number of all parts, which are `stride` numbers apart, for the first warp: `first`
/// is this lane's number of the first part, null if it has none. All threads call it.
__device__ inline double sum_of_parts(const float* first, std::int64_t stride, int count,
                                      double (&scratch)[kPartTeams][kWarp]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int team = static_cast<int>(threadIdx.x) / kWarp;
  double sum = 0;
  if (first != nullptr) {
#pragma unroll 8
    for (int i = team; i < count; i += kPartTeams) sum += static_cast<double>(first[i * stride]);
  }
  scratch[team][lane] = sum;
  __syncthreads();
  if (team != 0) return 0;
  for (int i = 1; i < kPartTeams; ++i) sum += scratch[i][lane];
  return sum;
}

}  // namespace sluice::runtime::cuda
