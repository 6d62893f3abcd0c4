#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// Recurrent weights in the order in which the threads of a cluster load them.
struct PackWeights {
  const float* from;  ///< [G*H, H]
  std::int32_t gates, hidden;
  std::int32_t blocks;  ///< of the cluster
  void* to;
};
/// Bytes that each packing takes.
constexpr std::int64_t packed_bytes(std::int64_t gates, std::int64_t blocks) {
  constexpr std::int64_t kElementBytes = 2;
  return (gates + gates % 2) * blocks * kUnits * blocks * kUnits * kElementBytes;
}
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent
