#pragma once

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"

namespace sluice::kernels::embedding {

using runtime::Stream;

/// Arguments of gather.
struct GatherArgs {
  Tensor table, tokens, out;
  Dropout dropout;
};

/// Those of a pass that drops rows of `tokens` out in place, for leaves that can't on the way.
elementwise::DropoutArgs dropout_args(const Dropout& dropout, const Tensor& tokens,
                                      const Tensor& values, std::int64_t features);

/// The operations of embedding.h on one kind of device: arguments are checked already, and each is
/// queued on the stream.
struct Leaves {
  void (*gather)(Stream& stream, const GatherArgs& args);
  void (*gather_backward)(Stream& stream, const GatherBackwardArgs& args);
};

}  // namespace sluice::kernels::embedding
