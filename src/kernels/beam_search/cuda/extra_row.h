#pragma once

#include "kernels/beam_search/cuda/extra_view.h"
#include "kernels/beam_search/cuda/ranked.h"
#include "kernels/beam_search/perturbation.h"
#include "kernels/loss/cuda/softmax_row.h"
#include "kernels/token_mask/rules.h"

/// The candidates of one row of a search with extras: the CPU's row_extras.cpp, by a team.
namespace sluice::kernels::beam_search::cuda {

using loss::cuda::Row;
using runtime::cuda::Add;
using runtime::cuda::Larger;

/// Memory that a team shares.
template <int kSize>
struct ExtraMemory {
  Ranked<double> parts[kSize / kWarp];
  double scratch[kSize / kWarp];
  int found;
};

template <int kSize, typename T>
class ExtraRow {
 public:
  __device__ ExtraRow(const Team<kSize>& team, const Rules& rules, const ExtraView& view,
                      const T* logits, std::int64_t vocabulary, std::int32_t step, std::int64_t row,
                      ExtraMemory<kSize>& memory)
      : team_(team),
        rules_(rules),
        view_(view),
        logits_(logits + row * vocabulary),
        vocabulary_(static_cast<int>(vocabulary)),
        step_(step),
        row_(row),
        input_(row / view.beam),
        memory_(memory),
        scores_(view.candidate_scores + row * view.width),
        tokens_(view.candidate_tokens + row * view.width) {
    const std::int64_t longest = view.longest(input_);
    only_ = step >= longest ? rules.eos : view.forced(input_, step);
    eos_ = step >= longest || step >= rules.min_length;
    if (view.mask != nullptr) mask_ = view.mask + row * token_mask::words_of(vocabulary);
    if (view.phrases == 0) return;
    phrases_ = view.phrases_of(input_);
    progress_ = view.progress_of(step, row);
    if (step == 0) {
      for (std::int64_t p = team.rank; p < view.phrases; p += kSize) progress_[p] = 0;
      team.sync();
    }
    const Left left = left_after(phrases_, progress_, -1);
    if (left.tokens > 0) eos_ = false;
    remaining_ = static_cast<std::int32_t>(longest) - step - 1;
    is_tight_ = left.tokens > remaining_;
  }

  /// Returns false, with no candidates, if the logits have no softmax.
  __device__ bool fill() {
    Row<T> row{logits_, vocabulary_, is_aligned()};
    const auto norm =
        loss::cuda::normaliser(team_, row, static_cast<loss::cuda::Group<T>*>(nullptr));
    if (isnan(norm.log_sum)) return false;
    if (team_.rank == 0) memory_.found = 0;
    team_.sync();
    if (view_.draws()) {
      draw();
    } else if (only_ >= 0) {
      if (team_.rank == 0 && may_follow(only_)) add(only_);
    } else {
      take_best();
    }
    team_.sync();
    const double prefix = view_.scores[row_];
    for (int i = team_.rank; i < memory_.found; i += kSize) {
      const std::int32_t token = tokens_[i];
      const double log_p =
          (static_cast<double>(logits_[token]) - static_cast<double>(norm.largest)) - norm.log_sum;
      scores_[i] = prefix + log_p;
      if (!view_.draws()) view_.candidate_keys[row_ * view_.width + i] = scores_[i];
      if (view_.phrases > 0) view_.candidate_left[row_ * view_.width + i] = left_with(token);
    }
    return true;
  }

 private:
  /// Which order sums are in doesn't depend on it.
  __device__ bool is_aligned() const {
    return vocabulary_ % 4 == 0 &&
           reinterpret_cast<std::uintptr_t>(logits_) % alignof(loss::cuda::Group<T>) == 0;
  }

  __device__ bool may_follow(std::int32_t token) const {
    // A token of the input's prefix needs no bit of the mask; an end does.
    if (only_ >= 0 && (token != only_ || token != rules_.eos)) return token == only_;
    if (mask_ != nullptr && !token_mask::has_bit(mask_, token)) return false;
    if (token == rules_.eos) return eos_;
    return token != rules_.pad && token != rules_.bos && token != rules_.unknown;
  }
  __device__ std::int32_t left_with(std::int32_t token) const {
    return token == rules_.eos ? 0 : left_after(phrases_, progress_, token).steps();
  }

  /// By one thread.
  __device__ void add(std::int32_t token) {
    if (isinf(logits_[token])) return;
    for (int i = 0; i < memory_.found; ++i) {
      if (tokens_[i] == token) return;
    }
    tokens_[memory_.found++] = token;
  }

  /// Finds the `most` largest of value(token), minus infinity where there is none; equal ones in
  /// order of their tokens. A thread has every kSize-th token, and only that whose token was taken
  /// looks for its next.
  template <typename Value>
  __device__ void find_largest(std::int64_t most, const Value& value) {
    Ranked<double> last{~std::uint64_t{0}, ~std::uint32_t{0}};
    const auto next_own = [&] {
      Ranked<double> best = Ranked<double>::none();
      for (int v = team_.rank; v < vocabulary_; v += kSize) {
        const double x = value(v);
        if (x == no_score()) continue;
        const auto one = Ranked<double>::of(x, v);
        if (last.above(one) && one.above(best)) best = one;
      }
      return best;
    };
    Ranked<double> own = next_own();
    int found = 0;
    for (; found < most; ++found) {
      const Ranked<double> best = best_of_team(team_, own, memory_.parts);
      if (!best.exists()) break;
      if (best.id() % kSize != team_.rank) continue;
      tokens_[found] = best.id();
      last = best;
      own = next_own();
    }
    team_.sync();
    if (team_.rank == 0) memory_.found = found;
    team_.sync();
  }

  /// The best ones, and those that go on with phrases.
  __device__ void take_best() {
    const std::int64_t best = view_.width - view_.phrases;
    if (!is_tight_) {
      find_largest(best, [&](std::int32_t token) {
        return may_follow(token) ? static_cast<double>(logits_[token]) : no_score();
      });
    } else if (team_.rank == 0) {
      take_best_of_phrases(best);
    }
    if (team_.rank != 0) return;
    for (std::int64_t p = 0; p < view_.phrases; ++p) {
      if (progress_[p] >= phrases_.lengths[p]) continue;
      const std::int32_t token = phrases_.at(p)[progress_[p]];
      if (fits(token)) add(token);
    }
  }
  __device__ bool fits(std::int32_t token) const {
    return may_follow(token) && left_with(token) <= remaining_;
  }
  /// There is room for no other token. They are few, so one thread sorts them in.
  __device__ void take_best_of_phrases(std::int64_t most) {
    int found = 0;
    for (std::int64_t p = 0; p < phrases_.count; ++p) {
      if (progress_[p] >= phrases_.lengths[p]) continue;
      for (std::int32_t i = 0; i < phrases_.lengths[p]; ++i) {
        const std::int32_t token = phrases_.at(p)[i];
        if (isinf(logits_[token]) || !fits(token)) continue;
        int place = 0;
        while (place < found && ranks_before(tokens_[place], token)) ++place;
        if (place == most || (place < found && tokens_[place] == token)) continue;
        if (found < most) ++found;
        for (int j = found - 1; j > place; --j) tokens_[j] = tokens_[j - 1];
        tokens_[place] = token;
      }
    }
    memory_.found = found;
  }
  __device__ bool ranks_before(std::int32_t a, std::int32_t b) const {
    return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
  }

  /// Takes the tokens of the largest perturbed log q.
  __device__ void draw() {
    const auto id = static_cast<std::uint32_t>(view_.input_ids[input_]);
    const double maximum = step_ == 0 ? first_noise<double>(view_.seed, id) : view_.perturbed[row_];
    const double log_q = step_ == 0 ? 0.0 : view_.log_q[row_];
    const NoiseKey key{view_.seed, id, static_cast<std::uint32_t>(step_),
                       static_cast<std::uint32_t>(row_ % view_.beam)};
    double* noisy = view_.noisy + row_ * vocabulary_;
    double largest_logit = no_score(), sum = 0;
    for_allowed([&](int v) { largest_logit = fmax(largest_logit, tempered(v)); });
    largest_logit = team_.reduce(largest_logit, Larger{});
    for_allowed([&](int v) { sum += ::exp(tempered(v) - largest_logit); });
    const double normaliser = largest_logit + ::log(team_.reduce(sum, Add{}));
    double largest = no_score();
    for (int v = team_.rank; v < vocabulary_; v += kSize) {
      noisy[v] = may_follow(v) ? log_q + (tempered(v) - normaliser) +
                                     gumbel<double>(key, static_cast<std::uint32_t>(v))
                               : no_score();
      largest = fmax(largest, noisy[v]);
    }
    largest = team_.reduce(largest, Larger{});
    if (largest == no_score()) return;
    find_largest(view_.width, [&](std::int32_t token) { return noisy[token]; });
    for (int i = team_.rank; i < memory_.found; i += kSize) {
      const std::int64_t at = row_ * view_.width + i;
      const std::int32_t token = tokens_[i];
      view_.candidate_keys[at] = given_maximum(noisy[token], largest, maximum);
      view_.candidate_log_q[at] = log_q + (tempered(token) - normaliser);
    }
  }
  __device__ double tempered(std::int32_t token) const {
    return static_cast<double>(logits_[token]) / view_.temperature;
  }
  template <typename Body>
  __device__ void for_allowed(const Body& body) const {
    for (int v = team_.rank; v < vocabulary_; v += kSize) {
      if (may_follow(v)) body(v);
    }
  }

  const Team<kSize>& team_;
  const Rules& rules_;
  const ExtraView& view_;
  const T* logits_;
  int vocabulary_;
  std::int32_t step_;
  std::int64_t row_, input_;
  ExtraMemory<kSize>& memory_;
  double* scores_;
  std::int32_t* tokens_;
  std::int32_t only_;  // this and nothing else; -1: what is not ruled out
  bool eos_;
  const std::int32_t* mask_ = nullptr;
  Phrases phrases_{};
  std::int32_t* progress_ = nullptr;
  std::int32_t remaining_ = 0;  // tokens behind the next one
  bool is_tight_ = false;       // whether a token of no phrase leaves too few
};

}  // namespace sluice::kernels::beam_search::cuda
