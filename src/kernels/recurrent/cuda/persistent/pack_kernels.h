#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/persistent/arguments.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// Recurrent weights in the order in which the threads of a cluster load them (packed_weights.h).
/// Those in float32 have both parts of a factor, of which TF32 takes the first.
struct PackWeights {
  const float* from;  ///< [G*H, H]
  std::int32_t gates, hidden;
  Cluster cluster;
  float* largest;  ///< of the weights in magnitude, float32 alone; out of find_largest
  void* to;
};
/// Bytes that each packing takes.
std::int64_t packed_bytes(DType storage, std::int64_t gates, const Cluster& cluster);

/// In magnitude, of `count` numbers; of the weights it comes before the packing.
void find_largest(cudaStream_t stream, const float* from, std::int64_t count, float* largest);
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent
