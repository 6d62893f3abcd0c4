#pragma once

#include "kernels/beam_search/cuda/merge.h"
#include "kernels/beam_search/cuda/row_candidates.h"

/// Rows of so few logits that each lane of a warp has two. What the loops for longer rows cost is
/// mostly the fetching of code that is run once.
namespace sluice::kernels::beam_search::cuda {

inline constexpr int kLogitsOfLane = 2, kShortRow = kLogitsOfLane * kWarp;

/// Of a lane's logits, `kWarp` apart, the tokens.
__device__ inline int token_of_lane(int r) {
  return r * kWarp + static_cast<int>(threadIdx.x % kWarp);
}

/// count += whether value + addend overflows: with minus a number whether the value is at least as
/// large, with its inverted bits whether it is larger. Two instructions, or three.
__device__ inline void count_overflow(std::uint32_t value, std::uint32_t addend, int& count) {
  asm("{.reg .u32 sum; add.cc.u32 sum, %1, %2; addc.u32 %0, %0, 0;}"
      : "+r"(count)
      : "r"(value), "r"(addend));
}
__device__ inline void count_overflow(std::uint64_t value, std::uint64_t addend, int& count) {
  asm("{.reg .u64 sum; add.cc.u64 sum, %1, %2; addc.u32 %0, %0, 0;}"
      : "+r"(count)
      : "l"(value), "l"(addend));
}

/// above[r] = how many of the row's `count` keys are above own[r], of equal ones those before. Keys
/// of all lanes stand at `keys`, 0 beyond the row's end. What own[r] = 0 gets means nothing.
template <typename Bits>
__device__ void count_above(const Group<Bits>* keys, int count, const Bits (&own)[kLogitsOfLane],
                            int (&above)[kLogitsOfLane]) {
#pragma unroll
  for (int part = 0; part < kLogitsOfLane; ++part) {
    const int end = min((part + 1) * kWarp, count);
    for (int first = part * kWarp; first < end; first += 4) {
      const Group<Bits> others = keys[first / 4];
#pragma unroll
      for (int r = 0; r < kLogitsOfLane; ++r) {
        const bool are_before = part == r ? first + 3 < token_of_lane(r) : part < r;
        const Bits addend = are_before ? Bits{0} - own[r] : ~own[r];
        for (const Bits other : others.at) count_overflow(other, addend, above[r]);
      }
    }
  }
  // Of its own group's those before have been taken for later ones.
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int r = 0; r < kLogitsOfLane; ++r) {
#pragma unroll
    for (int distance = 1; distance < 4; ++distance) {
      const Bits other = __shfl_xor_sync(kAllLanes, own[r], distance);
      if (other == own[r] && (lane ^ distance) < lane) ++above[r];
    }
  }
}

/// Lists a beam's candidates by a warp: the row's best continuations, and the one by eos apart.
/// Their scores and tokens go where candidates are; `keys` is shared, [kShortRow / 4].
template <typename T>
__device__ void list_short_row(const T (&values)[kLogitsOfLane], int count, const Allowed& allowed,
                               const Scores<T>& scores, bool has_candidates,
                               Group<typename Ranked<T>::Bits>* keys, int b, int beam,
                               double* candidate_scores, std::int32_t* candidate_tokens,
                               ListMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), width = beam + 1;
  typename Ranked<T>::Bits own[kLogitsOfLane];
  int live = 0;
#pragma unroll
  for (int r = 0; r < kLogitsOfLane; ++r) {
    const bool may_follow =
        has_candidates && values[r] > -static_cast<T>(INFINITY) && allowed(token_of_lane(r));
    own[r] = may_follow ? ordered(values[r]) : 0;
    live += __popc(__ballot_sync(kAllLanes, may_follow));
    keys[token_of_lane(r) / 4].at[lane % 4] = own[r];
  }
  __syncwarp();
  int places[kLogitsOfLane] = {}, end = -1;
  count_above(keys, count, own, places);
#pragma unroll
  for (int r = 0; r < kLogitsOfLane; ++r) {
    if (own[r] != 0 && token_of_lane(r) == allowed.eos && places[r] < width) end = places[r];
  }
  end = __reduce_max_sync(kAllLanes, end);
  if (end >= 0) --live;
  // What there isn't; the last of 33 isn't among the best 32 of all.
  if (lane >= min(live, end >= 0 ? beam : width)) memory.lists[b][lane] = Ranked<double>::none();
  if (end < 0 && lane == 0) memory.ends[b] = Ranked<double>::none();
#pragma unroll
  for (int r = 0; r < kLogitsOfLane; ++r) {
    if (own[r] == 0 || places[r] >= width) continue;
    const int at = b * width + places[r];
    const double score = scores(values[r]);
    candidate_scores[at] = score;
    candidate_tokens[at] = token_of_lane(r);
    const auto one = Ranked<double>::of(score, at);
    // What comes behind eos moves up.
    const int place = places[r] - (end >= 0 && places[r] > end ? 1 : 0);
    if (places[r] == end) {
      memory.ends[b] = one;
    } else if (place < kWarp) {
      memory.lists[b][place] = one;
    }
  }
}

}  // namespace sluice::kernels::beam_search::cuda
