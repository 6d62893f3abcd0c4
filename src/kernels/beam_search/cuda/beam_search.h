#pragma once

#include "kernels/beam_search/leaves.h"

/// The CUDA leaves of beam_search.h: arguments are checked already. A maximum length outside
/// 0..extent.max_length counts as the nearer end.
namespace sluice::kernels::beam_search::cuda {

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention);
void advance_extras(Stream& stream, const Rules& rules, const Extras& extras, const State& state,
                    const Tensor& logits, const Tensor& attention);
void record(Stream& stream, const State& state, const StepRecord& into);
void trace_back(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                const Tensor& attention);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::beam_search::cuda
