#include "kernels/beam_search/cpu/row_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/loss/cpu/softmax_rows.h"
#include "kernels/token_mask/rules.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

/// The best seen so far, sorted; `scores` hold logits.
class BestTokens {
 public:
  BestTokens(const Rules& rules, const Allowed& allowed, const Candidates& out)
      : rules_(rules), allowed_(allowed), out_(out) {}

  /// What a later token must exceed to matter.
  double threshold() const { return size_ < out_.count ? kImpossible : out_.scores[size_ - 1]; }

  void offer(double logit, std::int32_t token) {
    if (!(logit > threshold()) || !may_follow(rules_, allowed_, token)) return;
    if (size_ < out_.count) ++size_;
    std::int64_t place = size_ - 1;
    for (; place > 0 && out_.scores[place - 1] < logit; --place) {
      out_.scores[place] = out_.scores[place - 1];
      out_.tokens[place] = out_.tokens[place - 1];
    }
    out_.scores[place] = logit;
    out_.tokens[place] = token;
  }

  std::int64_t size() const { return size_; }

 private:
  const Rules& rules_;
  const Allowed& allowed_;
  const Candidates& out_;
  std::int64_t size_ = 0;
};

/// The scan touches a whole block only if it holds something above the threshold, which soon few
/// do.
constexpr std::int64_t kBlock = 64;

template <typename T>
bool any_above(const T* block, T threshold) {
  int found = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) found |= block[i] > threshold ? 1 : 0;
  return found != 0;
}

template <typename T>
void scan(const T* logits, std::int64_t vocabulary, BestTokens& best) {
  std::int64_t begin = 0;
  for (; begin + kBlock <= vocabulary; begin += kBlock) {
    // Exact: the threshold is minus infinity or one of the logits.
    if (!any_above(logits + begin, static_cast<T>(best.threshold()))) continue;
    for (std::int64_t j = begin; j < begin + kBlock; ++j) {
      best.offer(static_cast<double>(logits[j]), static_cast<std::int32_t>(j));
    }
  }
  for (; begin < vocabulary; ++begin) {
    best.offer(static_cast<double>(logits[begin]), static_cast<std::int32_t>(begin));
  }
}

}  // namespace

Allowed allowed_at(const Rules& rules, const State& state, std::int32_t step, std::int64_t input) {
  const std::int64_t time = state.extent.prefix_time;
  if (step >= state.max_lengths.data_as<const std::int32_t>()[input]) return {rules.eos, true};
  if (step < time && step < state.prefix_lengths.data_as<const std::int32_t>()[input]) {
    return {state.prefix.data_as<const std::int32_t>()[input * time + step], false};
  }
  return {-1, step >= rules.min_length};
}

bool may_follow(const Rules& rules, const Allowed& allowed, std::int32_t token) {
  if (allowed.mask != nullptr && !token_mask::has_bit(allowed.mask, token)) return false;
  if (token == rules.eos) return allowed.eos;
  return token != rules.pad && token != rules.bos && token != rules.unknown;
}

template <typename T>
LogSoftmax<T>::LogSoftmax(const T* logits, std::int64_t vocabulary) {
  const auto& rows = loss::cpu::softmax_rows<T>();
  maximum = rows.maximum(logits, vocabulary);
  log_sum = std::isfinite(maximum)
                ? std::log(rows.sums(logits, vocabulary, maximum, nullptr).exponentials)
                : std::numeric_limits<double>::quiet_NaN();
}

template <typename T>
std::int64_t best_tokens(const Rules& rules, const T* values, std::int64_t vocabulary,
                         const Allowed& allowed, const Candidates& out) {
  BestTokens best(rules, allowed, out);
  scan(values, vocabulary, best);
  return best.size();
}

template <typename T>
bool row_candidates(const Rules& rules, const T* logits, std::int64_t vocabulary,
                    const Allowed& allowed, double prefix, const Candidates& out) {
  const LogSoftmax<T> log_p(logits, vocabulary);
  std::fill(out.scores, out.scores + out.count, kImpossible);
  if (std::isnan(log_p.log_sum)) return false;

  std::int64_t found = 1;
  if (allowed.only >= 0) {
    out.scores[0] = static_cast<double>(logits[allowed.only]);
    out.tokens[0] = allowed.only;
  } else {
    found = best_tokens(rules, logits, vocabulary, allowed, out);
  }
  for (std::int64_t i = 0; i < found; ++i) out.scores[i] = prefix + log_p(out.scores[i]);
  return true;
}

template struct LogSoftmax<float>;
template struct LogSoftmax<double>;
template std::int64_t best_tokens<float>(const Rules&, const float*, std::int64_t, const Allowed&,
                                         const Candidates&);
template std::int64_t best_tokens<double>(const Rules&, const double*, std::int64_t, const Allowed&,
                                          const Candidates&);
template bool row_candidates<float>(const Rules&, const float*, std::int64_t, const Allowed&,
                                    double, const Candidates&);
template bool row_candidates<double>(const Rules&, const double*, std::int64_t, const Allowed&,
                                     double, const Candidates&);

}  // namespace sluice::kernels::beam_search::cpu
