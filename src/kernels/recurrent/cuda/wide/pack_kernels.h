#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// Recurrent weights as resident_product.h takes them: [block][stage], kStageWeightBytes each. Of a
/// block, those for registers are in the order in which threads load them, [warpgroup][step of
/// depth][warp][lane]; those for shared memory are [warpgroup][chunk][64 rows] lines of 128 bytes a
/// stage, as wgmma reads them.
struct PackWeights {
  const float* from;     ///< [G*H, H]
  const float* largest;  ///< of them in magnitude, float32 alone: factors of TF32 are scaled
  std::int32_t gates, hidden;
  std::int32_t chunks, stages;  ///< of units; of the ring, that a tile's depth takes
  void* to;
};
/// Bytes of a packing.
constexpr std::int64_t packed_bytes(std::int64_t chunks, std::int64_t stages) {
  return chunks * kBlocksOfChunk * stages * kStageWeightBytes;
}
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::wide
