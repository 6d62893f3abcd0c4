#pragma once

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// Recurrent weights in the order in which threads load them (resident_product.h).
struct PackWeights {
  const float* from;  ///< [G*H, H]
  std::int32_t gates, hidden;
  std::int32_t chunks, stages;  ///< of units; of the ring, that a tile's depth takes
  void* to;
};
/// Bytes of a packing.
constexpr std::int64_t packed_bytes(std::int64_t chunks, std::int64_t stages) {
  constexpr std::int64_t kRows = 64, kElementBytes = 2;
  return chunks * kBlocksOfChunk * kRows * stages * kStageChunks * kChunkUnits * kElementBytes;
}
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::wide
