#include <algorithm>
#include <vector>

#include "base/dtype.h"
#include "kernels/beam_search/coverage.h"
#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/beam_search/cpu/best_list.h"
#include "kernels/beam_search/cpu/row_extras.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

/// A candidate of an input.
struct Candidate {
  double key;
  std::int32_t left;  ///< tokens of phrases to come: its bank
  std::int64_t row, place;
  std::int64_t round = 0;  ///< how many of its bank come before it
};

bool ranks_before(const Candidate& a, const Candidate& b) {
  if (a.key != b.key) return a.key > b.key;
  return a.row != b.row ? a.row < b.row : a.place < b.place;
}

/// Banks take turns, the one with the fewest tokens to come first.
void take_turns(std::vector<Candidate>& candidates) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.left != b.left ? a.left < b.left : ranks_before(a, b);
  });
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].left == candidates[i - 1].left) {
      candidates[i].round = candidates[i - 1].round + 1;
    }
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.round != b.round ? a.round < b.round : a.left < b.left;
  });
}

/// One input's part of a step: of a group those before it have chosen already.
class InputStep {
 public:
  InputStep(const Rules& rules, const Extras& extras, const State& state, std::int32_t step,
            std::int64_t input)
      : rules_(rules),
        extras_(extras),
        state_(state),
        step_(step),
        input_(input),
        view_(state, input) {}

  void select() {
    if (*view_.done != 0) return;
    if (*view_.fault == 0) choose();
    const auto live = static_cast<std::int64_t>(chosen_.size());
    const bool done = live == 0 || is_beaten() ||
                      (rules_.stop_when_full && *view_.finished >= state_.extent.beam);
    *view_.done = done ? 1 : 0;
    if (done) chosen_.clear();
    for (std::size_t b = 0; b < chosen_.size(); ++b) {
      continue_with(static_cast<std::int64_t>(b), chosen_[b]);
    }
    clear_rows(rules_, view_, static_cast<std::int64_t>(chosen_.size()), state_.extent.beam);
  }

 private:
  struct Chosen {
    std::int32_t row, token;
    double score, key, log_q;
  };

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> all;
    for (std::int64_t row = view_.first_row; row < view_.first_row + state_.extent.beam; ++row) {
      const ExtraCandidates of_row(state_, row);
      for (std::int64_t i = 0; i < of_row.width; ++i) {
        if (of_row.scores[i] == kNone) continue;
        all.push_back({of_row.keys[i] - penalty_of(of_row.tokens[i]),
                       of_row.left == nullptr ? 0 : of_row.left[i], row, i});
      }
    }
    return all;
  }

  /// For what rows of the groups before have just chosen.
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

  void choose() {
    std::vector<Candidate> all = candidates();
    const auto beam = static_cast<std::size_t>(state_.extent.beam);
    if (state_.extent.phrases > 0) {
      take_turns(all);
    } else {
      // Of each row one may end, so no more are looked at.
      const std::size_t most = std::min(all.size(), 2 * beam);
      std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(most), ranks_before);
    }
    for (std::size_t rank = 0; rank < all.size() && chosen_.size() < beam; ++rank) {
      const ExtraCandidates of_row(state_, all[rank].row);
      const auto row = static_cast<std::int32_t>(all[rank].row);
      const std::int64_t place = all[rank].place;
      if (of_row.tokens[place] != rules_.eos) {
        chosen_.push_back({row, of_row.tokens[place], of_row.scores[place], of_row.keys[place],
                           of_row.log_q == nullptr ? 0 : of_row.log_q[place]});
      } else if (rank < beam) {
        ++*view_.finished;
        kept_of(view_, state_.extent.nbest).add(ended(of_row, place, row));
      }
    }
  }

  Finished ended(const ExtraCandidates& of_row, std::int64_t place, std::int32_t row) const {
    Finished one = finished(rules_, of_row.scores[place], step_, row);
    if (state_.extent.sampled_vocabulary > 0) one.normalised = of_row.keys[place];
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
  /// above 0. Of draws what is perturbed is the most that any continuation gets.
  bool is_beaten() const {
    const Kept kept = kept_of(view_, state_.extent.nbest);
    if (!kept.is_full()) return false;
    double most = kNone;
    for (const Chosen& one : chosen_) {
      most = std::max(
          most, state_.extent.sampled_vocabulary > 0
                    ? one.key
                    : one.score / length_penalty(view_.max_length + 1, rules_.length_penalty));
    }
    return most <= kept.worst();
  }

  void continue_with(std::int64_t b, const Chosen& one) const {
    const Extent& e = state_.extent;
    const std::int64_t row = view_.first_row + b, at = step_ * e.rows() + row;
    state_.history_parents.data_as<std::int32_t>()[at] = view_.parents[b] = one.row;
    state_.history_tokens.data_as<std::int32_t>()[at] = view_.tokens[b] = one.token;
    view_.scores[b] = one.score;
    if (e.sampled_vocabulary > 0) {
      state_.perturbed.data_as<double>()[row] = one.key;
      state_.log_q.data_as<double>()[row] = one.log_q;
    }
    if (e.coverage) {
      std::copy_n(coverage_of_row(state_, step_, one.row), e.source_time,
                  coverage_of_row(state_, step_ + 1, row));
    }
    if (e.phrases == 0) return;
    const Phrases phrases = phrases_of(state_, input_);
    const std::int32_t* before = progress_of(state_, step_, one.row);
    std::int32_t* after = progress_of(state_, step_ + 1, row);
    for (std::int64_t p = 0; p < phrases.count; ++p) {
      after[p] = progress_after(phrases.at(p), phrases.lengths[p], before[p], one.token);
    }
  }

  const Rules& rules_;
  const Extras& extras_;
  const State& state_;
  std::int32_t step_;
  std::int64_t input_;
  InputView view_;
  std::vector<Chosen> chosen_{};  // what lives on, in order
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
