#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent_grid/geometry.h"

/// How the blocks of a small cluster, which share the depth of a product, add up their sums: each
/// sends the others what belongs to their units, float32, thread by thread.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

template <int kCluster, typename Place>
class ClusterTotal {
 public:
  static constexpr int kSlot = kThreads * 4;  ///< what one block sends
  static constexpr int kBuffer = (kCluster - 1) * kSlot;
  static constexpr int kBarriers = 2 * kBuffer;  ///< behind two buffers, which take turns
  static constexpr int kBytes = kBarriers + 2 * 8;

  /// Other blocks may send once the cluster has met.
  __device__ ClusterTotal(std::byte* memory, int rows)
      : memory_(memory),
        address_(shared_address(memory)),
        rank_(static_cast<int>(cluster_rank())),
        bytes_(Place::kBlockUnits * rows * (kCluster - 1) * 4) {
    if (kCluster == 1 || threadIdx.x > 0) return;
    for (int buffer = 0; buffer < 2; ++buffer) begin_barrier(barrier(buffer), 1);
    publish_barriers();
    for (int buffer = 0; buffer < 2; ++buffer) arrive_and_expect(barrier(buffer), bytes_);
  }

  /// The block of the cluster that is `distance` ahead.
  __device__ int target(int distance) const { return (rank_ + distance) % kCluster; }

  /// Sends a sum for the unit and row that the same thread of that block owns.
  __device__ void send(int distance, int turn, float sum, bool sends) const {
    const int to = target(distance);
    const std::uint32_t there =
        static_cast<std::uint32_t>(turn % 2 * kBuffer + (distance - 1) * kSlot + threadIdx.x * 4);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n"
        "@p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];\n}" ::
            "r"(address_in(to, address_ + there)),
        "f"(sum), "r"(address_in(to, barrier(turn % 2))), "r"(static_cast<int>(sends))
        : "memory");
  }

  /// Waits for what all others have sent in this turn, the turn-th from 1 on.
  __device__ void wait(int turn) const {
    if (kCluster == 1) return;
    wait_for_phase(barrier(turn % 2), (turn - 1) / 2 % 2);
    if (threadIdx.x == 0) arrive_and_expect(barrier(turn % 2), bytes_);
  }

  __device__ float received(int turn) const {
    const float* from = reinterpret_cast<const float*>(memory_ + turn % 2 * kBuffer);
    float sum = 0;
#pragma unroll
    for (int i = 0; i + 1 < kCluster; ++i) {
      sum += from[i * kThreads + threadIdx.x];
    }
    return sum;
  }

 private:
  __device__ std::uint32_t barrier(int buffer) const { return address_ + kBarriers + buffer * 8; }

  std::byte* memory_;
  const std::uint32_t address_;
  const int rank_, bytes_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
