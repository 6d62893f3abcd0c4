#pragma once

#include "kernels/pooling/leaves.h"

/// The CUDA leaves of pooling.h: arguments are checked already. All but attention give the bits of
/// the cpu leaves.
namespace sluice::kernels::pooling::cuda {

void forward(Stream& stream, const ForwardArgs& args);
void backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch);

void attention_forward(Stream& stream, const ForwardArgs& args);
void attention_backward(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::pooling::cuda
