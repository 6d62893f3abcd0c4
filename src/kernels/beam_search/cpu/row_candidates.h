#pragma once

#include <cstdint>

#include "kernels/beam_search/beam_search.h"

namespace sluice::kernels::beam_search::cpu {

/// The continuations of one row, best first; `count` places, minus infinity where there are fewer.
struct Candidates {
  std::int64_t count;
  double* scores;
  std::int32_t* tokens;
};

/// Which tokens may follow a prefix.
struct Allowed {
  std::int32_t only;                   ///< this and nothing else; -1: what the rules allow
  bool eos;                            ///< whether that includes eos
  const std::int32_t* mask = nullptr;  ///< bits of what `only` leaves open; null: all
};

/// What may follow the rows of an input at a step.
Allowed allowed_at(const Rules& rules, const State& state, std::int32_t step, std::int64_t input);

/// Whether it may; `only` is the caller's to heed.
bool may_follow(const Rules& rules, const Allowed& allowed, std::int32_t token);

/// log p of a row: the loss family's arithmetic, so that scores have its bits.
template <typename T>
struct LogSoftmax {
  T maximum;
  double log_sum;  ///< NaN if the logits have no softmax: a NaN, plus infinity, or nothing but
                   ///< minus infinity

  LogSoftmax(const T* logits, std::int64_t vocabulary);
  double operator()(double logit) const { return (logit - static_cast<double>(maximum)) - log_sum; }
};

/// Fills `out` with the largest of values[vocabulary] whose tokens may follow, `only` apart; their
/// values stand for scores. Equal ones stand in order of their tokens. Returns how many there are.
template <typename T>
std::int64_t best_tokens(const Rules& rules, const T* values, std::int64_t vocabulary,
                         const Allowed& allowed, const Candidates& out);

/// Fills `out` with the largest of logits[vocabulary] that are allowed, as prefix + log p. Returns
/// false, with `out` empty, if the logits have no softmax.
template <typename T>
bool row_candidates(const Rules& rules, const T* logits, std::int64_t vocabulary,
                    const Allowed& allowed, double prefix, const Candidates& out);

}  // namespace sluice::kernels::beam_search::cpu
