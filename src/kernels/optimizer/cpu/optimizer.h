#pragma once

#include "kernels/optimizer/leaves.h"

/// The CPU leaves of optimizer.h and marked_chunks.h: arguments are checked already.
namespace sluice::kernels::optimizer::cpu {

void zero_gradients(Stream& stream, const ZeroGradientsArgs& args);
void sum_of_squares(Stream& stream, const SumOfSquaresArgs& args);
void adam_step(Stream& stream, const AdamArgs& args);
void sgd_step(Stream& stream, const SgdArgs& args);
void update_loss_scale(Stream& stream, const LossScaleArgs& args);
std::size_t list_marked_bytes(std::int64_t marks);
void list_marked(Stream& stream, const ListMarkedArgs& args);
void pack_chunks(Stream& stream, const PackedChunksArgs& args);
void unpack_chunks(Stream& stream, const PackedChunksArgs& args);

inline constexpr Leaves kLeaves{zero_gradients, sum_of_squares,    adam_step,
                                sgd_step,       update_loss_scale, list_marked_bytes,
                                list_marked,    pack_chunks,       unpack_chunks};

}  // namespace sluice::kernels::optimizer::cpu
