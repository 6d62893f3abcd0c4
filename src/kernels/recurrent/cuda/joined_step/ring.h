#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/joined_step/arguments.h"
#include "kernels/recurrent/cuda/ring_place.h"
#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// Stages of shared memory, each with a chunk of 128 bytes of depth of both factors: lines of the
/// left one, then of the right one.
template <int kGates>
class Ring {
 public:
  static constexpr int kStageBytes = (kRows + kGates * kUnits) * kLineBytes;
  static constexpr int kBarrierBytes = static_cast<int>(sizeof(std::uint64_t));
  static constexpr int kStages = kGates == 4 ? 3 : 4;  ///< that two blocks of a processor can have
  static constexpr int kBytes = kStages * (kStageBytes + 2 * kBarrierBytes);

  /// `memory`: 1024-aligned.
  __device__ explicit Ring(const void* memory) : stages_(shared_address(memory)) {}
  /// By one thread.
  __device__ void begin() const {
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) {
      begin_barrier(filled(i), 1);
      begin_barrier(emptied(i), kSharers * kMultipliers / kWarpThreads);
    }
    publish_barriers();
  }

  __device__ std::uint32_t left(int stage) const { return stages_ + stage * kStageBytes; }
  __device__ std::uint32_t right(int stage) const { return left(stage) + kRows * kLineBytes; }
  __device__ std::uint32_t filled(int stage) const {
    return stages_ + kStages * kStageBytes + stage * 2 * kBarrierBytes;
  }
  __device__ std::uint32_t emptied(int stage) const { return filled(stage) + kBarrierBytes; }

  /// Says to all who copy into a stage that this warp's products have read it.
  __device__ void release(int stage) const {
    const std::uint32_t rank = threadIdx.x % kWarpThreads;
    if (rank < kSharers) arrive_in_cluster(address_in(rank, emptied(stage)));
  }

 private:
  const std::uint32_t stages_;
};

}  // namespace sluice::kernels::recurrent::cuda::joined_step
