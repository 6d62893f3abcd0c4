#pragma once

#include "kernels/beam_search/cuda/ranked.h"
#include "kernels/beam_search/cuda/view.h"

/// An input's hypotheses that have ended.
namespace sluice::kernels::beam_search::cuda {

__device__ inline double penalty_of(const Rules& rules, std::int64_t length) {
  if (rules.length_penalty == 0) return 1;  // what pow makes of it
  return ::pow((5.0 + static_cast<double>(length)) / 6.0, rules.length_penalty);
}

/// The list of an input's best hypotheses, which one warp works on.
class BestList {
 public:
  __device__ BestList(const View& view, std::int64_t input) : view_(view), input_(input) {
    finished_ = view.finished[input];
    look();
  }

  __device__ std::int32_t finished() const { return finished_; }
  __device__ bool is_full() const { return last_length_ >= 0; }
  __device__ double worst() const { return worst_; }

  /// Takes prefixes that ended in eos with `length` tokens before it, of each of the first `count`
  /// lanes one, best first. Of equal ones that which ended earlier stays ahead.
  __device__ void keep(const Rules& rules, std::int32_t length, int count, double score,
                       std::int32_t row) {
    finished_ += count;
    if (lane() == 0) view_.finished[input_] = finished_;
    const double value = score / penalty_of(rules, length + 1);
    if (is_full() && !(__shfl_sync(kAllLanes, value, 0) > worst_)) return;
    int ahead = 0;
    // From the end, since places move there.
    for (std::int64_t first = (view_.nbest - 1) / kWarp * kWarp; first >= 0; first -= kWarp) {
      ahead += make_room(first + lane(), count, value);
    }
    if (lane() < count && lane() + ahead < view_.nbest) {
      put(lane() + ahead, {score, value, length, row});
    }
    __syncwarp();
    look();
  }

 private:
  struct Kept {
    double score, normalised;
    std::int32_t length, row;
  };

  static __device__ int lane() { return static_cast<int>(threadIdx.x % kWarp); }
  __device__ void look() {
    const std::int64_t last = (input_ + 1) * view_.nbest - 1;
    worst_ = view_.best_normalised[last];
    last_length_ = view_.best_lengths[last];
  }
  __device__ Kept at(std::int64_t place) const {
    const std::int64_t i = input_ * view_.nbest + place;
    return {view_.best_scores[i], view_.best_normalised[i], view_.best_lengths[i],
            view_.best_rows[i]};
  }
  __device__ void put(std::int64_t place, const Kept& one) const {
    const std::int64_t i = input_ * view_.nbest + place;
    view_.best_scores[i] = one.score;
    view_.best_normalised[i] = one.normalised;
    view_.best_lengths[i] = one.length;
    view_.best_rows[i] = one.row;
  }

  /// Moves what stands at `place` behind those of the first `count` lanes' values that are better.
  /// Returns how many of the warp's places stay ahead of this lane's value.
  __device__ int make_room(std::int64_t place, int count, double value) const {
    const bool is_place = place < view_.nbest;
    const Kept kept = is_place ? at(place) : Kept{};
    int moves = 0, ahead = 0;
    for (int j = 0; j < count; ++j) {
      // What is empty is minus infinity.
      const double other = __shfl_sync(kAllLanes, value, j);
      const bool stays = is_place && kept.normalised >= other;
      const int staying = __popc(__ballot_sync(kAllLanes, stays));
      if (lane() == j) ahead = staying;
      if (!stays) ++moves;
    }
    __syncwarp();
    if (is_place && moves > 0 && place + moves < view_.nbest) put(place + moves, kept);
    __syncwarp();
    return ahead;
  }

  const View& view_;
  std::int64_t input_;
  std::int32_t finished_, last_length_;
  double worst_;  // with that length the last one's
};

}  // namespace sluice::kernels::beam_search::cuda
