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
  std::int32_t only;  ///< this and nothing else; -1: what the rules allow
  bool eos;           ///< whether that includes eos
};

/// Fills `out` with the largest of logits[vocabulary] that are allowed, as prefix + log p. Equal
/// logits stand in order of their tokens. Returns false, with `out` empty, if the logits have no
/// softmax: a NaN, plus infinity, or nothing but minus infinity.
template <typename T>
bool row_candidates(const Rules& rules, const T* logits, std::int64_t vocabulary,
                    const Allowed& allowed, double prefix, const Candidates& out);

}  // namespace sluice::kernels::beam_search::cpu
