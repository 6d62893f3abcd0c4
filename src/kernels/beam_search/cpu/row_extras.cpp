#include "kernels/beam_search/cpu/row_extras.h"

#include <algorithm>
#include <cmath>

#include "kernels/beam_search/cpu/row_candidates.h"
#include "kernels/beam_search/cpu/views.h"
#include "kernels/beam_search/perturbation.h"
#include "kernels/token_mask/rules.h"

namespace sluice::kernels::beam_search::cpu {

ExtraCandidates::ExtraCandidates(const State& state, std::int64_t row)
    : width(state.extent.width()) {
  const auto at = [&]<typename Number>(const Tensor& tensor, Number) {
    return tensor ? tensor.data_as<Number>() + row * width : nullptr;
  };
  scores = at(state.candidate_scores, double{});
  tokens = at(state.candidate_tokens, std::int32_t{});
  keys = state.candidate_keys ? at(state.candidate_keys, double{}) : scores;
  log_q = at(state.candidate_log_q, double{});
  left = at(state.candidate_left, std::int32_t{});
}

Phrases phrases_of(const State& state, std::int64_t input) {
  const Extent& e = state.extent;
  return {state.phrase_tokens.data_as<const std::int32_t>() + input * e.phrases * e.phrase_time,
          state.phrase_lengths.data_as<const std::int32_t>() + input * e.phrases, e.phrases,
          e.phrase_time};
}

std::int32_t* progress_of(const State& state, std::int64_t step, std::int64_t row) {
  const Extent& e = state.extent;
  return state.progress.data_as<std::int32_t>() + (step % 2 * e.rows() + row) * e.phrases;
}

double* coverage_of_row(const State& state, std::int64_t step, std::int64_t row) {
  const Extent& e = state.extent;
  return state.coverage.data_as<double>() + (step % 2 * e.rows() + row) * e.source_time;
}

namespace {

/// One live row of a step.
template <typename T>
class ExtraRow {
 public:
  ExtraRow(const Rules& rules, const Extras& extras, const State& state, const Tensor& logits,
           std::int32_t step, std::int64_t row)
      : rules_(rules),
        extras_(extras),
        state_(state),
        vocabulary_(logits.size(1)),
        logits_(logits.data_as<const T>() + row * vocabulary_),
        step_(step),
        row_(row),
        input_(row / state.extent.beam),
        allowed_(allowed_at(rules, state, step, input_)),
        out_(state, row) {
    if (extras.mask) {
      allowed_.mask =
          extras.mask.data_as<const std::int32_t>() + row * token_mask::words_of(vocabulary_);
    }
  }

  bool fill() {
    const LogSoftmax<T> log_p(logits_, vocabulary_);
    if (std::isnan(log_p.log_sum)) return false;
    if (state_.extent.phrases > 0) look_at_phrases();
    if (out_.log_q != nullptr) {
      draw();
    } else if (allowed_.only >= 0) {
      take_only();
    } else {
      take_best();
    }
    const double prefix = state_.scores.data_as<const double>()[row_];
    for (std::int64_t i = 0; i < found_; ++i) {
      out_.scores[i] = prefix + log_p(static_cast<double>(logits_[out_.tokens[i]]));
      if (out_.log_q == nullptr) out_.keys[i] = out_.scores[i];
      if (out_.left != nullptr) out_.left[i] = left_with(out_.tokens[i]);
    }
    return true;
  }

 private:
  bool may_follow(std::int32_t token) const {
    if (allowed_.only < 0) return cpu::may_follow(rules_, allowed_, token);
    // A token of the input's prefix needs no bit of the mask; an end does.
    if (token != allowed_.only) return false;
    return token != rules_.eos || cpu::may_follow(rules_, allowed_, token);
  }

  void look_at_phrases() {
    phrases_ = phrases_of(state_, input_);
    progress_ = progress_of(state_, step_, row_);
    if (step_ == 0) std::fill_n(progress_, phrases_.count, 0);
    const Left left = left_after(phrases_, progress_, -1);
    if (left.tokens > 0) allowed_.eos = false;
    remaining_ = state_.max_lengths.data_as<const std::int32_t>()[input_] - step_ - 1;
    is_tight_ = left.tokens > remaining_;
  }
  std::int32_t left_with(std::int32_t token) const {
    return token == rules_.eos ? 0 : left_after(phrases_, progress_, token).steps();
  }

  void take_only() {
    if (may_follow(allowed_.only)) add(allowed_.only);
  }
  void add(std::int32_t token) {
    if (std::isinf(logits_[token])) return;
    if (std::find(out_.tokens, out_.tokens + found_, token) == out_.tokens + found_) {
      out_.tokens[found_++] = token;
    }
  }

  /// The best ones, and those that go on with phrases.
  void take_best() {
    const std::int64_t best = out_.width - state_.extent.phrases;
    if (!is_tight_) {
      found_ =
          best_tokens(rules_, logits_, vocabulary_, allowed_, {best, out_.scores, out_.tokens});
    } else {
      take_best_of_phrases(best);
    }
    for (std::int64_t p = 0; p < state_.extent.phrases; ++p) {
      if (progress_[p] >= phrases_.lengths[p]) continue;
      const std::int32_t token = phrases_.at(p)[progress_[p]];
      if (fits(token)) add(token);
    }
  }
  bool fits(std::int32_t token) const {
    return may_follow(token) && left_with(token) <= remaining_;
  }
  /// There is room for no other token. They are few, so they are sorted in one by one.
  void take_best_of_phrases(std::int64_t most) {
    for (std::int64_t p = 0; p < phrases_.count; ++p) {
      if (progress_[p] >= phrases_.lengths[p]) continue;
      for (std::int32_t i = 0; i < phrases_.lengths[p]; ++i) {
        const std::int32_t token = phrases_.at(p)[i];
        if (fits(token) && !std::isinf(logits_[token])) sort_in(token, most);
      }
    }
  }
  void sort_in(std::int32_t token, std::int64_t most) {
    const auto ranks_before = [&](std::int32_t a, std::int32_t b) {
      return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
    };
    std::int32_t* const end = out_.tokens + found_;
    std::int32_t* const place = std::lower_bound(out_.tokens, end, token, ranks_before);
    if (place == out_.tokens + most || (place != end && *place == token)) return;
    if (found_ < most) ++found_;
    std::copy_backward(place, out_.tokens + found_ - 1, out_.tokens + found_);
    *place = token;
  }

  /// Takes the tokens of the largest perturbed log q.
  void draw() {
    const auto id =
        static_cast<std::uint32_t>(state_.input_ids.data_as<const std::int32_t>()[input_]);
    auto& maximum = state_.perturbed.data_as<double>()[row_];
    auto& log_q = state_.log_q.data_as<double>()[row_];
    if (step_ == 0) {
      maximum = first_noise(extras_.seed, id);
      log_q = 0;
    }
    const NoiseKey key{extras_.seed, id, static_cast<std::uint32_t>(step_),
                       static_cast<std::uint32_t>(row_ % state_.extent.beam)};
    double* noisy = state_.noisy.data_as<double>() + row_ * vocabulary_;
    const double normaliser = log_sum_of_allowed();
    double largest = kNone;
    for (std::int64_t v = 0; v < vocabulary_; ++v) {
      const auto token = static_cast<std::int32_t>(v);
      noisy[v] = may_follow(token) ? log_q + (tempered(token) - normaliser) +
                                         gumbel(key, static_cast<std::uint32_t>(v))
                                   : kNone;
      largest = std::max(largest, noisy[v]);
    }
    if (largest == kNone) return;
    // Tokens that may not follow have minus infinity. The rules must not be asked again: a prefix
    // may hold what they forbid.
    Rules none = rules_;
    none.pad = none.bos = none.unknown = -1;
    found_ =
        best_tokens(none, noisy, vocabulary_, {-1, true}, {out_.width, out_.scores, out_.tokens});
    for (std::int64_t i = 0; i < found_; ++i) {
      const std::int32_t token = out_.tokens[i];
      out_.keys[i] = given_maximum(noisy[token], largest, maximum);
      out_.log_q[i] = log_q + (tempered(token) - normaliser);
    }
  }
  double tempered(std::int32_t token) const {
    return static_cast<double>(logits_[token]) / extras_.temperature;
  }
  double log_sum_of_allowed() const {
    double largest = kNone, sum = 0;
    for_allowed([&](std::int32_t token) { largest = std::max(largest, tempered(token)); });
    for_allowed([&](std::int32_t token) { sum += std::exp(tempered(token) - largest); });
    return largest + std::log(sum);
  }
  template <typename Body>
  void for_allowed(Body&& body) const {
    for (std::int64_t v = 0; v < vocabulary_; ++v) {
      if (may_follow(static_cast<std::int32_t>(v))) body(static_cast<std::int32_t>(v));
    }
  }

  const Rules& rules_;
  const Extras& extras_;
  const State& state_;
  std::int64_t vocabulary_;
  const T* logits_;
  std::int32_t step_;
  std::int64_t row_, input_;
  Allowed allowed_;
  ExtraCandidates out_;
  std::int64_t found_ = 0;
  Phrases phrases_{};
  std::int32_t* progress_ = nullptr;
  std::int32_t remaining_ = 0;  // tokens behind the next one
  bool is_tight_ = false;       // whether a token of no phrase leaves too few
};

template <typename T>
void add_coverage(const State& state, const Tensor& attention, std::int32_t step,
                  std::int64_t row) {
  const std::int64_t time = state.extent.source_time;
  double* sums = coverage_of_row(state, step, row);
  const T* from = attention.data_as<const T>() + row * time;
  for (std::int64_t s = 0; s < time; ++s) {
    sums[s] = (step == 0 ? 0 : sums[s]) + static_cast<double>(from[s]);
  }
}

}  // namespace

template <typename T>
bool continue_row_with_extras(const Rules& rules, const Extras& extras, const State& state,
                              const Tensor& logits, const Tensor& attention, std::int32_t step,
                              std::int64_t row) {
  if (state.extent.coverage) add_coverage<T>(state, attention, step, row);
  return ExtraRow<T>(rules, extras, state, logits, step, row).fill();
}

template bool continue_row_with_extras<float>(const Rules&, const Extras&, const State&,
                                              const Tensor&, const Tensor&, std::int32_t,
                                              std::int64_t);
template bool continue_row_with_extras<double>(const Rules&, const Extras&, const State&,
                                               const Tensor&, const Tensor&, std::int32_t,
                                               std::int64_t);

}  // namespace sluice::kernels::beam_search::cpu
