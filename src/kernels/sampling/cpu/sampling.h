#pragma once

#include "kernels/sampling/leaves.h"

/// The CPU leaves of sampling.h: arguments are checked already.
namespace sluice::kernels::sampling::cpu {

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices);
void schedule_inputs(Stream& stream, const ScheduledInputsArgs& args);

inline constexpr Leaves kLeaves{start, advance, schedule_inputs};

}  // namespace sluice::kernels::sampling::cpu
