#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Recurrent weights of forward as threads load them: [block][warpgroup][step of depth 16][warp]
/// [lane], 16 bytes each: rows of the product as ForwardCells has them.
struct PackWeights {
  const float* from;     ///< [G*H, H]
  const float* largest;  ///< of them in magnitude, float32 alone: factors of TF32 are scaled
  std::int32_t gates, hidden;
  void* to;
};
/// Bytes of a packing.
constexpr std::int64_t packed_bytes(std::int64_t hidden) {
  const std::int64_t groups = groups_for(hidden);
  const std::int64_t steps = kBlocks * groups * kGroupUnits / 16;
  return kBlocks * groups * steps * 128 * 16;
}
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
