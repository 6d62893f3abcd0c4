#pragma once

#include "kernels/beam_search/leaves.h"

/// The CPU leaves of beam_search.h: arguments are checked already.
namespace sluice::kernels::beam_search::cpu {

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention);
void advance_extras(Stream& stream, const Rules& rules, const Extras& extras, const State& state,
                    const Tensor& logits, const Tensor& attention);
void record(Stream& stream, const State& state, const StepRecord& into);
void trace_back(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                const Tensor& attention);

inline constexpr Leaves kLeaves{start, advance, advance_extras, record, trace_back};

}  // namespace sluice::kernels::beam_search::cpu
