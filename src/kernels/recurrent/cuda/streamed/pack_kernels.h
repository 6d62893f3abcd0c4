#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/streamed/arguments.h"

namespace sluice::kernels::recurrent::cuda::streamed {

/// Recurrent weights as product.h takes them, a block's after another's (Spread::packed_bytes).
/// Those for registers are in the order in which threads load them, [register
/// chunk][warpgroup][step of depth][warp][lane]; the others are lines of 128 bytes as wgmma reads
/// them.
struct PackWeights {
  const float* from;  ///< [G*H, H]
  std::int32_t gates, hidden;
  Spread spread;
  void* to;
};
constexpr std::int64_t packed_bytes(const Spread& spread) {
  return spread.blocks() * spread.packed_bytes();
}
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::streamed
