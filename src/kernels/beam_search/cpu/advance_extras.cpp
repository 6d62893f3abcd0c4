#include <algorithm>

#include "base/dtype.h"
#include "kernels/beam_search/coverage.h"
#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/beam_search/cpu/best_list.h"
#include "kernels/beam_search/cpu/row_extras.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

/// One input's part of a step; the groups of an input choose one after the other.
class InputStep {
 public:
  InputStep(const Rules& rules, const Extras& extras, const State& state, std::int32_t step,
            std::int64_t input)
      : rules_(rules),
        extras_(extras),
        state_(state),
        step_(step),
        input_(input),
        view_(state, input),
        candidates_(state, view_.first_row),
        order_(state.candidate_order.data_as<std::int32_t>() +
               view_.first_row * candidates_.width) {}

  void select() {
    if (*view_.done != 0) return;
    std::int64_t live = *view_.fault == 0 ? choose() : 0;
    const bool done = live == 0 || is_beaten(live) ||
                      (rules_.stop_when_full && *view_.finished >= state_.extent.beam);
    *view_.done = done ? 1 : 0;
    if (done) live = 0;
    for (std::int64_t b = 0; b < live; ++b) bring_along(view_.first_row + b, view_.parents[b]);
    clear_rows(rules_, view_, live, state_.extent.beam);
  }

 private:
  // Candidates are numbered within the input: row b's are b * width and following.

  /// Larger keys first, then lower rows and places.
  bool ranks_before(std::int32_t a, std::int32_t b) const {
    const double* keys = candidates_.keys;
    return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
  }

  /// Puts those that there are in `order_`, and returns how many. Takes from the keys what rows of
  /// the groups before have just chosen.
  std::int64_t list() const {
    std::int64_t count = 0;
    const std::int64_t all = state_.extent.beam * candidates_.width;
    for (std::int64_t i = 0; i < all; ++i) {
      if (candidates_.scores[i] == kNone) continue;
      if (state_.extent.groups > 1) candidates_.keys[i] -= penalty_of(candidates_.tokens[i]);
      order_[count++] = static_cast<std::int32_t>(i);
    }
    return count;
  }

  double penalty_of(std::int32_t token) const {
    const Extent& e = state_.extent;
    const std::int64_t first = (input_ - input_ % e.groups) * e.beam;
    const auto* scores = state_.scores.data_as<const double>();
    const auto* tokens = state_.tokens.data_as<const std::int32_t>();
    std::int64_t count = 0;
    for (std::int64_t row = first; row < view_.first_row; ++row) {
      if (scores[row] != kNone && tokens[row] == token) ++count;
    }
    return extras_.diversity * static_cast<double>(count);
  }

  /// Calls take(candidate) for the best first until it returns false.
  template <typename Take>
  void take_best(std::int64_t count, const Take& take) const {
    // At most one candidate of each row ends, so no more are looked at.
    const std::int64_t most = std::min(count, 2 * state_.extent.beam);
    std::partial_sort(order_, order_ + most, order_ + count,
                      [&](std::int32_t a, std::int32_t b) { return ranks_before(a, b); });
    for (std::int64_t i = 0; i < most && take(order_[i]); ++i) {
    }
  }

  /// The same, with the banks in turn: each gives its best, the one with the fewest tokens to come
  /// first, then each its second best.
  template <typename Take>
  void take_in_turn(std::int64_t count, const Take& take) const {
    const std::int32_t* left = candidates_.left;
    std::sort(order_, order_ + count, [&](std::int32_t a, std::int32_t b) {
      return left[a] != left[b] ? left[a] < left[b] : ranks_before(a, b);
    });
    const std::int64_t most_banks = state_.extent.phrases * state_.extent.phrase_time + 1;
    auto* ends = state_.bank_uses.data_as<std::int32_t>() + input_ * most_banks;
    std::int64_t banks = 0;
    for (std::int64_t i = 1; i <= count; ++i) {
      if (i == count || left[order_[i]] != left[order_[i - 1]]) {
        ends[banks++] = static_cast<std::int32_t>(i);
      }
    }
    std::int64_t taken = 0;
    for (std::int64_t round = 0; taken < count; ++round) {
      for (std::int64_t bank = 0; bank < banks; ++bank) {
        const std::int64_t at = (bank == 0 ? 0 : ends[bank - 1]) + round;
        if (at >= ends[bank]) continue;
        ++taken;
        if (!take(order_[at])) return;
      }
    }
  }

  /// Returns how many rows live on. Their candidates stay as they are, so rows may be overwritten.
  std::int64_t choose() const {
    const std::int64_t count = list(), beam = state_.extent.beam;
    std::int64_t live = 0, rank = 0;
    const auto take = [&](std::int32_t candidate) {
      if (candidates_.tokens[candidate] != rules_.eos) {
        continue_with(live++, candidate);
      } else if (rank < beam) {
        ++*view_.finished;
        kept_of(view_, state_.extent.nbest).add(ended(candidate));
      }
      ++rank;
      return live < beam;
    };
    if (state_.extent.phrases > 0) {
      take_in_turn(count, take);
    } else {
      take_best(count, take);
    }
    return live;
  }

  std::int32_t row_of(std::int32_t candidate) const {
    return static_cast<std::int32_t>(view_.first_row + candidate / candidates_.width);
  }

  Finished ended(std::int32_t candidate) const {
    const std::int32_t row = row_of(candidate);
    Finished one = finished(rules_, candidates_.scores[candidate], step_, row);
    if (state_.extent.sampled_vocabulary > 0) one.normalised = candidates_.keys[candidate];
    if (state_.extent.coverage) {
      const double* sums = coverage_of_row(state_, step_, row);
      double total = 0;
      for (std::int32_t s = 0; s < source_length(); ++s) total += coverage_of(sums[s]);
      one.normalised += extras_.coverage * total;
    }
    return one;
  }
  std::int32_t source_length() const {
    return state_.source_lengths.data_as<const std::int32_t>()[input_];
  }

  /// Nothing that lives can end above the worst hypothesis kept: log p only falls, a longer
  /// hypothesis is divided by at most the penalty of the greatest length, and coverage adds nothing
  /// above 0. A draw's perturbed log q is the most that any continuation gets.
  bool is_beaten(std::int64_t live) const {
    const Kept kept = kept_of(view_, state_.extent.nbest);
    if (!kept.is_full()) return false;
    double most = kNone;
    for (std::int64_t b = 0; b < live; ++b) {
      most = std::max(most, state_.extent.sampled_vocabulary > 0
                                ? state_.perturbed.data_as<const double>()[view_.first_row + b]
                                : view_.scores[b] /
                                      length_penalty(view_.max_length + 1, rules_.length_penalty));
    }
    return most <= kept.worst();
  }

  void continue_with(std::int64_t b, std::int32_t candidate) const {
    const std::int64_t row = view_.first_row + b, at = step_ * state_.extent.rows() + row;
    state_.history_parents.data_as<std::int32_t>()[at] = view_.parents[b] = row_of(candidate);
    state_.history_tokens.data_as<std::int32_t>()[at] = view_.tokens[b] =
        candidates_.tokens[candidate];
    view_.scores[b] = candidates_.scores[candidate];
    if (state_.extent.sampled_vocabulary == 0) return;
    state_.perturbed.data_as<double>()[row] = candidates_.keys[candidate];
    state_.log_q.data_as<double>()[row] = candidates_.log_q[candidate];
  }

  /// A row takes over the coverage and the progress of the prefix that it continues.
  void bring_along(std::int64_t row, std::int32_t parent) const {
    const Extent& e = state_.extent;
    if (e.coverage) {
      std::copy_n(coverage_of_row(state_, step_, parent), e.source_time,
                  coverage_of_row(state_, step_ + 1, row));
    }
    if (e.phrases == 0) return;
    const Phrases phrases = phrases_of(state_, input_);
    const std::int32_t* before = progress_of(state_, step_, parent);
    std::int32_t* after = progress_of(state_, step_ + 1, row);
    const std::int32_t token = state_.tokens.data_as<const std::int32_t>()[row];
    for (std::int64_t p = 0; p < phrases.count; ++p) {
      after[p] = progress_after(phrases.at(p), phrases.lengths[p], before[p], token);
    }
  }

  const Rules& rules_;
  const Extras& extras_;
  const State& state_;
  std::int32_t step_;
  std::int64_t input_;
  InputView view_;
  ExtraCandidates candidates_;  // all rows' of the input
  std::int32_t* order_;
};

template <typename T>
void continue_row(const Rules& rules, const Extras& extras, const State& state,
                  const Tensor& logits, const Tensor& attention, std::int32_t step,
                  std::int64_t row) {
  const ExtraCandidates out(state, row);
  std::fill_n(out.scores, out.width, kNone);
  if (state.scores.data_as<const double>()[row] == kNone) return;
  record_attention<T>(state, attention, step, row);
  if (!continue_row_with_extras<T>(rules, extras, state, logits, attention, step, row)) {
    note_fault(state, step, row / state.extent.beam);
  }
}

template <typename T>
void run(const Rules& rules, const Extras& extras, const State& state, const Tensor& logits,
         const Tensor& attention) {
  const Extent& e = state.extent;
  const std::int32_t step = e.inputs > 0 ? *state.step.data_as<const std::int32_t>() : 0;
  const std::int64_t rows = e.rows(), texts = e.inputs / e.groups;
#pragma omp parallel for schedule(static) if (rows * logits.size(1) > 16384)
  for (std::int64_t row = 0; row < rows; ++row) {
    continue_row<T>(rules, extras, state, logits, attention, step, row);
  }
#pragma omp parallel for schedule(static) if (rows * e.beam > 256)
  for (std::int64_t text = 0; text < texts; ++text) {
    for (std::int64_t group = 0; group < e.groups; ++group) {
      InputStep(rules, extras, state, step, text * e.groups + group).select();
    }
  }
  end_step(state, step);
}

}  // namespace

void advance_extras(Stream& stream, const Rules& rules, const Extras& extras, const State& state,
                    const Tensor& logits, const Tensor& attention) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([=] { run<T>(rules, extras, state, logits, attention); });
  });
}

}  // namespace sluice::kernels::beam_search::cpu
