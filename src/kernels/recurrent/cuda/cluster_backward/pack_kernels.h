#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cluster_backward/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Recurrent weights as product.h takes them: [block][warpgroup][factor][warp][lane], 16 bytes
/// each, a factor [64, 16] in the order of mma.sync's fragments. Behind them, of TF32, a float: the
/// largest sum of a column's numbers in magnitude.
struct PackWeights {
  const float* from;     ///< [4*H, H]
  const float* largest;  ///< of them in magnitude, float32 alone: factors of TF32 are scaled
  std::int32_t gates, hidden;
  void* to;
};
/// Bytes of a packing.
std::int64_t packed_bytes(std::int64_t hidden);
void pack_weights(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
