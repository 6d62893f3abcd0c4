#pragma once

#include "kernels/loss/loss.h"

namespace sluice::kernels::loss {

using runtime::Stream;

/// What one token, or frame, adds to the sums. The workspace of a loss holds one a token, and some
/// more for parts of the sums.
struct TokenResult {
  double loss, nll;
  double counted, correct;  ///< 0 or 1
};
inline constexpr std::int64_t kLossParts = 64;

/// The operations of loss.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*cross_entropy)(Stream& stream, const CrossEntropyArgs& args);
  void (*squared_error)(Stream& stream, const SquaredErrorArgs& args);
  void (*score_targets)(Stream& stream, const TargetScoreArgs& args);
  void (*log_softmax)(Stream& stream, const Tensor& logits, const Tensor& out);
};

}  // namespace sluice::kernels::loss
