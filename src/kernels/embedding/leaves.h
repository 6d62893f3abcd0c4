#pragma once

#include "kernels/embedding/embedding.h"

namespace sluice::kernels::embedding {

using runtime::Stream;

/// The operations of embedding.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*gather)(Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out);
  void (*gather_backward)(Stream& stream, const GatherBackwardArgs& args);
};

}  // namespace sluice::kernels::embedding
