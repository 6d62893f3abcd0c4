#pragma once

#include "kernels/beam_search/cuda/ranked.h"
#include "kernels/beam_search/cuda/view.h"

/// The candidates of an input's beams, each one's sorted, in one order.
namespace sluice::kernels::beam_search::cuda {

/// An input's candidates [beam, beam + 1], in memory of any kind: a beam's best first, no_score()
/// behind them.
struct InputCandidates {
  int beam;
  const double* scores;
  const std::int32_t* tokens;

  /// What ranks as a candidate does: the larger score, then the lower beam, then the beam's order.
  __device__ Ranked<double> ranked(int b, int place) const {
    const int at = b * (beam + 1) + place;
    const double score = scores[at];
    return score > no_score() ? Ranked<double>::of(score, at) : Ranked<double>::none();
  }
};

/// Up to 32 beams' candidates, merged by a block in shared memory, two lists of 32 at a time.
struct ListMemory {
  Ranked<double> lists[kWarp][kWarp];  ///< of each beam those that go on
  Ranked<double> ends[kWarp];          ///< of each beam that with eos
};

/// Lists those of a beam, by a warp.
__device__ inline void list_beam(const InputCandidates& candidates, int b, std::int32_t eos,
                                 ListMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), width = candidates.beam + 1;
  // Of 33 eos may be the last, which then isn't among the best 32 of all.
  const Ranked<double> own = lane < width ? candidates.ranked(b, lane) : Ranked<double>::none();
  const bool is_end = own.exists() && candidates.tokens[own.id()] == eos;
  const unsigned ends = __ballot_sync(kAllLanes, is_end);
  const int end = ends != 0 ? __ffs(ends) - 1 : kWarp;
  if (is_end || (ends == 0 && lane == 0)) {
    memory.ends[b] = is_end ? own : Ranked<double>::none();
  }
  // What comes behind eos moves up.
  const bool moves = lane >= end;
  const bool is_last = lane + 1 >= width;
  memory.lists[b][lane] = !moves    ? own
                          : is_last ? Ranked<double>::none()
                                    : candidates.ranked(b, lane + 1);
}

/// lists[0] = the best 32 of all. All threads of the block call it behind a barrier.
__device__ inline void merge_lists(int beam, ListMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = static_cast<int>(threadIdx.x / kWarp),
            warps = static_cast<int>(blockDim.x / kWarp);
  for (int count = beam; count > 1;) {
    const int half = (count + 1) / 2;
    for (int b = warp; b + half < count; b += warps) {
      const Ranked<double> one = memory.lists[b][lane],
                           other = memory.lists[b + half][kWarp - 1 - lane];
      memory.lists[b][lane] = best_of_lists(one, other);
    }
    __syncthreads();
    count = half;
  }
}

/// Any number of beams' candidates, one after another by a warp, a lane of which watches every
/// 32nd beam.
class Merge {
 public:
  /// heads is shared, [beam].
  __device__ Merge(const InputCandidates& candidates, std::int32_t* heads)
      : candidates_(candidates), heads_(heads) {
    for (int b = lane(); b < candidates_.beam; b += kWarp) heads_[b] = 0;
    look();
  }

  /// The next one, or none.
  __device__ Ranked<double> next() {
    const Ranked<double> best = best_of_warp(best_);
    __syncwarp();
    if (best.exists() && best.token == best_.token) {
      ++heads_[best.id() / (candidates_.beam + 1)];
      look();
    }
    __syncwarp();
    return best;
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x % kWarp); }

  __device__ void look() {
    best_ = Ranked<double>::none();
    for (int b = lane(); b < candidates_.beam; b += kWarp) {
      if (heads_[b] > candidates_.beam) continue;
      const Ranked<double> head = candidates_.ranked(b, heads_[b]);
      if (head.above(best_)) best_ = head;
    }
  }

  const InputCandidates& candidates_;
  std::int32_t* heads_;
  Ranked<double> best_;  // of this lane's beams
};

}  // namespace sluice::kernels::beam_search::cuda
