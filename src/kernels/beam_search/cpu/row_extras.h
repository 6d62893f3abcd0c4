#pragma once

#include <cstdint>

#include "kernels/beam_search/beam_search.h"
#include "kernels/beam_search/forced.h"

namespace sluice::kernels::beam_search::cpu {

/// A row's candidates, [width] of each array; a score is minus infinity where there is none. An
/// array that the extent doesn't ask for is null; without keys of their own, candidates have their
/// scores.
struct ExtraCandidates {
  std::int64_t width;
  double *scores, *keys, *log_q;
  std::int32_t *tokens, *left;

  ExtraCandidates(const State& state, std::int64_t row);
};

/// The phrases of an input. Only where the extent has some.
Phrases phrases_of(const State& state, std::int64_t input);
/// A row's progress with them, as of so many steps.
std::int32_t* progress_of(const State& state, std::int64_t step, std::int64_t row);
/// A row's sums of attention, as of so many steps.
double* coverage_of_row(const State& state, std::int64_t step, std::int64_t row);

/// Fills a live row's candidates and adds where it looked to its coverage. Returns false, with no
/// candidates, if its logits have no softmax.
template <typename T>
bool continue_row_with_extras(const Rules& rules, const Extras& extras, const State& state,
                              const Tensor& logits, const Tensor& attention, std::int32_t step,
                              std::int64_t row);

}  // namespace sluice::kernels::beam_search::cpu
