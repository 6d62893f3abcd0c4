#pragma once

#include "kernels/optimizer/marked_chunks.h"
#include "kernels/optimizer/optimizer.h"

namespace sluice::kernels::optimizer {

using runtime::Stream;

/// Elements whose squares make one partial sum.
inline constexpr std::int64_t kNormBlock = 16384;

/// The operations of optimizer.h and marked_chunks.h on one kind of device: arguments are checked
/// already, and each is queued on the stream.
struct Leaves {
  void (*zero_gradients)(Stream& stream, const ZeroGradientsArgs& args);
  void (*sum_of_squares)(Stream& stream, const SumOfSquaresArgs& args);
  void (*adam_step)(Stream& stream, const AdamArgs& args);
  void (*sgd_step)(Stream& stream, const SgdArgs& args);
  void (*update_loss_scale)(Stream& stream, const LossScaleArgs& args);
  std::size_t (*list_marked_bytes)(std::int64_t marks);
  void (*list_marked)(Stream& stream, const ListMarkedArgs& args);
  void (*pack_chunks)(Stream& stream, const PackedChunksArgs& args);
  void (*unpack_chunks)(Stream& stream, const PackedChunksArgs& args);
};

}  // namespace sluice::kernels::optimizer
