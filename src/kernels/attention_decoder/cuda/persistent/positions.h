#pragma once

#include "kernels/attention_decoder/cuda/persistent/attention_parts.h"

/// What a cluster's two attending warpgroups do with the source positions of their row. A thread
/// has four columns, and of each position on its way the numbers there.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Positions whose numbers a thread has on their way.
inline constexpr int kAhead = 20;
static_assert(kAhead > 16 && kAhead <= 32 && kMostSource == 64);

/// Of a matrix [rows, source_time, width] a row's first `source` positions.
template <typename S>
struct Positions {
  const S* matrix;
  int width, row, source_time, source;

  /// The four columns from `column` of positions from `first` on; behind the last one that one
  /// again, and zeros where there are none.
  __device__ void load(int first, int column, bool any, uint2 (&to)[kAhead]) const {
    if (!any || column >= width) {
#pragma unroll
      for (uint2& bits : to) bits = {0, 0};
      return;
    }
    const S* from = matrix + (std::int64_t{row} * source_time + first) * width + column;
    const int last = (source - 1 - first) * width;
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      to[s] = __ldg(reinterpret_cast<const uint2*>(from + min(s * width, last)));
    }
  }
};

/// Sums of a warp's columns, of this block and of the other (copy 1): [kMostSource].
template <typename Block>
__device__ float* warp_sums(const Block& block, int copy) {
  return reinterpret_cast<float*>(block.shared + Block::Offsets::kScores +
                                  copy * Block::Offsets::kScoreBytes) +
         thread_of_role() / 32 * kMostSource;
}

/// Sums term(s), the thread's part of the s-th position of those that load(first) brings from
/// `first` on, over all columns of both blocks. `parity`: of the calls.
template <typename Block, typename Load, typename Term>
__device__ void sum_positions(const Block& block, int source, std::uint32_t& parity,
                              const Load& load, const Term& term) {
  const std::uint32_t barrier = block.barrier(Block::Offsets::kScoreSums);
  const int lane = thread_of_role() % 32;
  if (thread_of_role() == 0) arrive_and_expect(barrier, 4 * 4 * source);
  const std::uint32_t there = block.there(recurrent::cuda::shared_address(warp_sums(block, 1))),
                      counts = block.there(barrier);
#pragma unroll 1
  for (int first = 0; first < source; first += kAhead) {
    if (first > 0) load(first);
    // Lane l is left with the l-th.
    float sums[16];
#pragma unroll
    for (int s = 0; s < 16; ++s) {
      const float low = term(s), high = s + 16 < kAhead ? term(s + 16 < kAhead ? s + 16 : 0) : 0;
      sums[s] = exchanged(low, high, 16);
    }
#pragma unroll
    for (int level = 0; level < 4; ++level) {
      const int half = 8 >> level;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < half) sums[i] = exchanged(sums[i], sums[(half + i) % 16], half);
      }
    }
    const int s = first + lane;
    if (lane < kAhead && s < source) {
      warp_sums(block, 0)[s] = sums[0];
      send(there + s * 4, sums[0], counts);
    }
  }
  sync_warpgroup<3>();
  wait_for_phase(barrier, parity);
  parity ^= 1;
}

/// What sum_positions has summed for a position, in one order for both blocks.
template <typename Block>
__device__ float sum_of_position(const Block& block, int position) {
  const auto* sums = reinterpret_cast<const float*>(block.shared + Block::Offsets::kScores);
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    sum += sums[((k / 4 ^ block.rank) * 4 + k % 4) * kMostSource + position];
  }
  return sum;
}

/// A number for each position: lane l has that of the l-th, and of the 32nd from there.
inline constexpr int kOfLane = kMostSource / 32;
/// Called by whole warps.
__device__ inline float of_position(const float (&numbers)[kOfLane], int position) {
  return __shfl_sync(~0u, position < 32 ? numbers[0] : numbers[1], position % 32);
}
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
  return x;
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
