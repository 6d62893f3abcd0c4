#pragma once

#include "kernels/sampling/leaves.h"

/// The CPU leaves of sampling.h: arguments are checked already.
namespace sluice::kernels::sampling::cpu {

void start(Stream& stream, const Rules& rules, const State& state);
void advance(Stream& stream, const Rules& rules, const State& state, const Tensor& logits,
             const Tensor& attention);

inline constexpr Leaves kLeaves{start, advance};

}  // namespace sluice::kernels::sampling::cpu
