#pragma once

#include "kernels/loss/leaves.h"

/// The CPU leaves of loss.h: arguments are checked already.
namespace sluice::kernels::loss::cpu {

void cross_entropy(Stream& stream, const CrossEntropyArgs& args);
void squared_error(Stream& stream, const SquaredErrorArgs& args);
void score_targets(Stream& stream, const TargetScoreArgs& args);
void log_softmax(Stream& stream, const Tensor& logits, const Tensor& out);

inline constexpr Leaves kLeaves{cross_entropy, squared_error, score_targets, log_softmax};

}  // namespace sluice::kernels::loss::cpu
