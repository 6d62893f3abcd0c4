#pragma once

#include "kernels/pooling/pooling.h"

namespace sluice::kernels::pooling {

using runtime::Stream;

/// What the backward of attention leaves behind for the gradient of the query, and needs on its
/// way: both in the query's type.
struct AttentionScratch {
  Tensor d_scores;      ///< [time, rows]
  Tensor query_shares;  ///< out [rows, features]: the rows' shares of the query's gradient
};

/// The operations of pooling.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*forward)(Stream& stream, const ForwardArgs& args);
  void (*backward)(Stream& stream, const BackwardArgs& args, const AttentionScratch& scratch);
};

}  // namespace sluice::kernels::pooling
