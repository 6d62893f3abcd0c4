#pragma once

#include "kernels/beam_search/cuda/ranked.h"
#include "kernels/beam_search/cuda/view.h"

/// What lives on and what finishes of one input, by one warp.
namespace sluice::kernels::beam_search::cuda {

__device__ inline double penalty_of(const Rules& rules, std::int64_t length) {
  return ::pow((5.0 + static_cast<double>(length)) / 6.0, rules.length_penalty);
}

/// A prefix that ended in eos, with `length` tokens before it.
struct Finished {
  double score;
  std::int32_t length, row;
};

/// The list of an input's best hypotheses; one thread works on it.
struct BestList {
  std::int64_t nbest;
  std::int32_t* finished;
  double *scores, *normalised;
  std::int32_t *lengths, *rows;

  __device__ BestList(const View& v, std::int64_t input)
      : nbest(v.nbest),
        finished(v.finished + input),
        scores(v.best_scores + input * v.nbest),
        normalised(v.best_normalised + input * v.nbest),
        lengths(v.best_lengths + input * v.nbest),
        rows(v.best_rows + input * v.nbest) {}

  __device__ bool is_full() const { return lengths[nbest - 1] >= 0; }
  __device__ double worst() const { return normalised[nbest - 1]; }

  /// An equal one that finished earlier stays ahead.
  __device__ void keep(const Rules& rules, const Finished& one) const {
    ++*finished;
    const double value = one.score / penalty_of(rules, one.length + 1);
    if (is_full() && !(value > worst())) return;
    std::int64_t place = nbest - 1;
    for (; place > 0 && (lengths[place - 1] < 0 || normalised[place - 1] < value); --place) {
      scores[place] = scores[place - 1];
      normalised[place] = normalised[place - 1];
      lengths[place] = lengths[place - 1];
      rows[place] = rows[place - 1];
    }
    scores[place] = one.score;
    normalised[place] = value;
    lengths[place] = one.length;
    rows[place] = one.row;
  }
};

/// The beams' sorted candidates [beam, beam + 1], the best of all first, lower beams first among
/// equals. A lane watches every 32nd beam.
class Merge {
 public:
  /// heads is shared, [beam].
  __device__ Merge(std::int64_t beam, const double* scores, std::int32_t* heads)
      : beam_(static_cast<int>(beam)), scores_(scores), heads_(heads) {
    for (int b = lane(); b < beam_; b += kWarp) heads_[b] = 0;
    look();
  }

  /// Where the next one stands; -1 if there is none.
  __device__ int next() {
    const std::uint64_t best = largest_of_warp(value_);
    if (best == 0) return -1;
    const int b = __reduce_min_sync(kAllLanes, value_ == best ? head_ : beam_);
    const int at = b * (beam_ + 1) + heads_[b];
    __syncwarp();
    if (b % kWarp == lane()) {
      ++heads_[b];
      look();
    }
    __syncwarp();
    return at;
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x % kWarp); }

  __device__ void look() {
    value_ = 0;
    for (int b = lane(); b < beam_; b += kWarp) {
      if (heads_[b] > beam_) continue;
      const double score = scores_[b * (beam_ + 1) + heads_[b]];
      const std::uint64_t value = score > no_score() ? ordered(score) : 0;
      if (value > value_) {
        value_ = value;
        head_ = b;
      }
    }
  }

  int beam_;
  const double* scores_;
  std::int32_t* heads_;
  std::uint64_t value_ = 0;  // of the best of this lane's beams; 0: none
  int head_ = 0;             // its beam
};

/// Fills the rows of an input with what lives on, best first; returns how many. `best_score` is the
/// first one's. Those that end are kept.
__device__ inline int continue_input(const Rules& rules, const View& v, std::int32_t step,
                                     std::int64_t input, const double* scores,
                                     const std::int32_t* tokens, std::int32_t* heads,
                                     double& best_score) {
  const bool writes = threadIdx.x % kWarp == 0;
  const std::int64_t first_row = input * v.beam, history = step * v.rows() + first_row;
  const BestList list(v, input);
  Merge merge(v.beam, scores, heads);
  int live = 0;
  for (int rank = 0; live < v.beam; ++rank) {
    const int at = merge.next();
    if (at < 0) break;
    const auto row = static_cast<std::int32_t>(first_row + at / (v.beam + 1));
    const std::int32_t token = tokens[at];
    const double score = scores[at];
    if (token == rules.eos) {
      if (writes && rank < v.beam) list.keep(rules, {score, step, row});
      continue;
    }
    if (live == 0) best_score = score;
    if (writes) {
      v.history_parents[history + live] = v.parents[first_row + live] = row;
      v.history_tokens[history + live] = v.tokens[first_row + live] = token;
      v.scores[first_row + live] = score;
    }
    ++live;
  }
  return live;
}

/// `tokens` and `scores` are the candidates of the input's beams, heads is shared, [beam].
__device__ inline void select_input(const Rules& rules, const View& v, std::int32_t step,
                                    std::int64_t input, const double* scores,
                                    const std::int32_t* tokens, std::int32_t* heads) {
  if (v.done[input] != 0) return;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  double best_score = no_score();
  int live = 0;
  if (__ldcg(v.faults + input) == 0) {
    live = continue_input(rules, v, step, input, scores, tokens, heads, best_score);
  }
  int done = 0;
  if (lane == 0) {
    const BestList list(v, input);
    // No live prefix can end above the worst hypothesis kept: log p only falls, and a longer
    // hypothesis is divided by at most the penalty of the greatest length.
    const bool nothing_to_gain =
        list.is_full() && best_score / penalty_of(rules, v.longest(input) + 1) <= list.worst();
    done = live == 0 || nothing_to_gain || (rules.stop_when_full && *list.finished >= v.beam);
    v.done[input] = done;
  }
  done = __shfl_sync(kAllLanes, done, 0);
  __syncwarp();  // rows written as live may be cleared by another lane
  for (std::int64_t b = (done != 0 ? 0 : live) + lane; b < v.beam; b += kWarp) {
    const std::int64_t row = input * v.beam + b;
    v.scores[row] = no_score();
    v.tokens[row] = rules.pad;
    v.parents[row] = static_cast<std::int32_t>(row);
  }
}

}  // namespace sluice::kernels::beam_search::cuda
