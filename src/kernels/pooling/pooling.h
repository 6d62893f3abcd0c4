#pragma once

#include <cstddef>
#include <string_view>

#include "runtime/context.h"
#include "runtime/tensor.h"

/// A whole sequence as one row of features: its last output, the mean or the largest of its
/// features over time, or their mean weighted by attention. Equations: docs/equations.md.
///
/// x is [time, rows, features], time-major, of any floating type; row r has lengths[r] steps, and
/// what x holds past them changes nothing, NaN included. A row of length 0 comes out as zero, and
/// its gradient is zero. Sums over time run in rising t, in float32 (float64 for float64); a row's
/// results don't depend on the other rows, to the bit.
namespace sluice::kernels::pooling {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

enum class Kind { kLast, kMean, kMax, kAttention };

std::string_view name_of(Kind kind);
/// "last", "mean", "max" or "attention"; anything else is refused.
Kind parse_kind(std::string_view name);

struct ForwardArgs {
  Kind kind = Kind::kLast;
  /// kLast: that many features, from the first on, are of a forward direction and come from a
  /// row's last step; the others are of a backward direction, whose last step is the row's first.
  std::int64_t forward_features = 0;
  Tensor x;        ///< [time, rows, features]
  Tensor lengths;  ///< int32 [rows], each 0..time; absent: all `time`
  /// kAttention: [features], float32 (float64 for float64).
  Tensor query;
  /// out, kAttention: [time, rows], as the query: each step's share, zero past a row's end. To be
  /// kept for backward.
  Tensor weights;
  /// out, kMax: int32 [rows, features]: the step that each feature comes from, the first of equal
  /// ones; -1 for a row of length 0. To be kept for backward.
  Tensor positions;
  Tensor y;  ///< out [rows, features], like x. The largest of a NaN and others is NaN.
};

void forward(const Context& context, const ForwardArgs& args);

struct BackwardArgs {
  ForwardArgs forward;        ///< as it was run; what it left in weights or positions
  Tensor dy;                  ///< [rows, features], like x
  Tensor dx;                  ///< out, like x; overwritten, zero past a row's end
  Tensor d_query;             ///< kAttention: like the query; added to
  void* workspace = nullptr;  ///< backward_workspace_bytes, aligned to 64
};

/// Of rows and times up to x's; 0 for most kinds.
std::size_t backward_workspace_bytes(Kind kind, const runtime::Shape& x, DType dtype);

void backward(const Context& context, const BackwardArgs& args);

}  // namespace sluice::kernels::pooling
