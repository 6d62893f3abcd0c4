#pragma once

#include "kernels/beam_search/beam_search.h"

/// The CPU leaves of beam_search.h: arguments are checked already.
namespace sluice::kernels::beam_search::cpu {

using runtime::Stream;

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention);
void trace_back(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                const Tensor& attention);

}  // namespace sluice::kernels::beam_search::cpu
