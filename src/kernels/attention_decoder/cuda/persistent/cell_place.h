#pragma once

#include <cstring>

#include "kernels/attention_decoder/cuda/persistent/block.h"

/// Which cells a thread evaluates, and how what they write comes together.
///
/// Row i of a warp's 16 rows of the product is of unit i % 8 / 2: gates i and f of it, or g and o
/// if i is odd; the second of a pair is 8 rows below. So a thread has two gates of a unit, whose
/// others are four lanes away, and after they have met all gates of the unit in four rows of the
/// batch.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// A thread's rows of the batch: first(), + 1, + 8 and + 9; behind turned() one of them.
struct CellPlace {
  int unit, first, row;
  int lane, quarter;  ///< which of four neighbouring units, and of its four rows

  __device__ explicit CellPlace(const Block& block) {
    const int thread = thread_of_role(), warp = thread / 32;
    lane = thread % 32;
    quarter = lane / 8;
    unit = block.cluster * kUnits + warp * 4 + quarter;
    first = block.rank * (kRows / 2) + lane / 4 % 2 * 16 + lane % 4 * 2;
    row = row_of(quarter);
  }
  __device__ int row_of(int i) const { return first + i % 2 + i / 2 * 8; }
  __device__ int units() const { return unit - quarter; }  ///< the first of four
};

template <typename S>
__device__ std::uint32_t pair_of(float low, float high) {
  const S values[2] = {static_cast<S>(low), static_cast<S>(high)};
  std::uint32_t bits;
  memcpy(&bits, values, sizeof(bits));
  return bits;
}

/// From a unit's values of four rows to the place's row's values of four units.
__device__ inline uint2 turned(const CellPlace& place, std::uint32_t first, std::uint32_t second) {
  const bool lower = place.quarter < 2, even = place.quarter % 2 == 0;
  const std::uint32_t mine = lower ? first : second;
  const std::uint32_t other = __shfl_xor_sync(~0u, lower ? second : first, 16);
  const std::uint32_t low = lower ? mine : other, high = lower ? other : mine;
  const std::uint32_t begin = __byte_perm(low, high, 0x5410);
  const std::uint32_t end = __byte_perm(low, high, 0x7632);
  const std::uint32_t kept = even ? begin : end;
  const std::uint32_t got = __shfl_xor_sync(~0u, even ? end : begin, 8);
  const std::uint32_t a = even ? kept : got, b = even ? got : kept;
  return {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632)};
}
template <typename S>
__device__ uint2 turned(const CellPlace& place, const float (&values)[4]) {
  return turned(place, pair_of<S>(values[0], values[1]), pair_of<S>(values[2], values[3]));
}
__device__ inline float4 turned(const CellPlace& place, const float (&values)[4]) {
  const bool lower = place.quarter < 2, even = place.quarter % 2 == 0;
  float low[2], high[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float mine = lower ? values[i] : values[2 + i];
    const float other = __shfl_xor_sync(~0u, lower ? values[2 + i] : values[i], 16);
    low[i] = lower ? mine : other;
    high[i] = lower ? other : mine;
  }
  const float got_low = __shfl_xor_sync(~0u, even ? low[1] : low[0], 8);
  const float got_high = __shfl_xor_sync(~0u, even ? high[1] : high[0], 8);
  return even ? make_float4(low[0], got_low, high[0], got_high)
              : make_float4(got_low, low[1], got_high, high[1]);
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
