#pragma once

#include "kernels/loss/leaves.h"

/// The CUDA leaves of loss.h: arguments are checked already. A target outside the vocabulary makes
/// its token's loss or score NaN.
namespace sluice::kernels::loss::cuda {

void cross_entropy(Stream& stream, const CrossEntropyArgs& args);
void squared_error(Stream& stream, const SquaredErrorArgs& args);
void score_targets(Stream& stream, const TargetScoreArgs& args);
void log_softmax(Stream& stream, const Tensor& logits, const Tensor& out);

extern const ProjectedLeaves kProjectedLeaves;
extern const Leaves kLeaves;

}  // namespace sluice::kernels::loss::cuda
