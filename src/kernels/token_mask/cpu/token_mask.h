#pragma once

#include "kernels/token_mask/leaves.h"

/// The CPU leaves of token_mask.h: arguments are checked already.
namespace sluice::kernels::token_mask::cpu {

void update(Stream& stream, const Rules& rules, const State& state, const Tensor& step,
            const Tensor& tokens, const Tensor& parents);
void apply(Stream& stream, const Tensor& mask, const Tensor& logits, const Tensor& out);
void pick(Stream& stream, const Tensor& of_steps, const Tensor& step, const Tensor& mask);

inline constexpr Leaves kLeaves{update, apply, pick};

}  // namespace sluice::kernels::token_mask::cpu
