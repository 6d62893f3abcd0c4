#pragma once

#include "kernels/loss/loss.h"

/// The CPU leaves of loss.h: arguments are checked already.
namespace sluice::kernels::loss::cpu {

using runtime::Stream;

std::size_t workspace_bytes(std::int64_t tokens);
void cross_entropy(Stream& stream, const CrossEntropyArgs& args);
void score_targets(Stream& stream, const TargetScoreArgs& args);
void log_softmax(Stream& stream, const Tensor& logits, const Tensor& out);

}  // namespace sluice::kernels::loss::cpu
