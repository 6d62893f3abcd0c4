#pragma once

#include <cstdint>

/// Arrivals at barriers of other blocks of a cluster that speak for loads (Hopper and later).
namespace sluice::kernels::recurrent::cuda {

/// Arrives at a barrier of the cluster's for what a warp's threads have loaded from the block's
/// shared memory, which an arrival alone may overtake; the fence is for that memory alone. Called
/// by the whole warp, by threads that don't arrive with zero.
__device__ inline void arrive_after_loads(std::uint32_t barrier) {
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
  __syncwarp();
  if (barrier == 0) return;
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}
/// What was so loaded may be overwritten by this thread, which has waited for the arrivals.
__device__ inline void follow_loads() {
  asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}

}  // namespace sluice::kernels::recurrent::cuda
