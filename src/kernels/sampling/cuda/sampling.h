#pragma once

#include "kernels/sampling/leaves.h"

/// The CUDA leaves of sampling.h: arguments are checked already. A maximum length outside its range
/// counts as the nearer end.
namespace sluice::kernels::sampling::cuda {

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention, const Tensor& choices);
void schedule_inputs(Stream& stream, const ScheduledInputsArgs& args);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::sampling::cuda
