#pragma once

#include "kernels/pooling/leaves.h"

/// The CPU leaves of pooling.h: arguments are checked already.
namespace sluice::kernels::pooling::cpu {

void forward(Stream& stream, const ForwardArgs& args);
void backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch);

void attention_forward(Stream& stream, const ForwardArgs& args);
void attention_backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch);

inline constexpr Leaves kLeaves{forward, backward};

}  // namespace sluice::kernels::pooling::cpu
