#pragma once

#include "kernels/loss/projected.h"

namespace sluice::kernels::loss {

using runtime::Stream;

/// What one token, or frame, adds to the sums. The workspace of a loss holds one a token, and some
/// more for parts of the sums.
struct TokenResult {
  double loss, nll;
  double counted, correct;  ///< 0 or 1
};
inline constexpr std::int64_t kLossParts = 64;

/// Parts that the sums of projected_cross_entropy have at most: two blocks a multiprocessor of an
/// H200.
inline constexpr std::int64_t kProjectedParts = 264;
/// Tokens that a block takes at a time.
inline constexpr int kProjectedTile = 64;

/// The operations of projected.h.
struct ProjectedLeaves {
  bool (*takes)(Stream& stream, base::DType storage, std::int64_t in, std::int64_t classes);
  void (*draw)(Stream& stream, const ProjectedCrossEntropyArgs& args);
  void (*run)(Stream& stream, const ProjectedCrossEntropyArgs& args);
};

/// The operations of loss.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*cross_entropy)(Stream& stream, const CrossEntropyArgs& args);
  void (*squared_error)(Stream& stream, const SquaredErrorArgs& args);
  void (*score_targets)(Stream& stream, const TargetScoreArgs& args);
  void (*log_softmax)(Stream& stream, const Tensor& logits, const Tensor& out);
  const ProjectedLeaves* projected = nullptr;  ///< or null: the device has none
};

}  // namespace sluice::kernels::loss
