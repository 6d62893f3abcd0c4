#pragma once

#include <cstdint>

/// Blocks that run together on a part of the GPU and write into each other's shared memory, and
/// launches that begin before the kernel ahead of them has ended (Hopper and later).
namespace sluice::kernels::recurrent::cuda {

__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline std::uint32_t cluster_size() {
  std::uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

/// What threads of the cluster wrote before they arrived is there for those who have waited.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where the same place of shared memory is in the block of that rank.
__device__ inline std::uint32_t address_in(std::uint32_t rank, std::uint32_t address) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ inline void store_in_cluster(std::uint32_t address, const float4& v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ inline void store_in_cluster(std::uint32_t address, const float2& v) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(v.x), "f"(v.y)
               : "memory");
}

/// Waits until the kernel ahead has ended and what it wrote can be read.
__device__ inline void wait_for_kernel_ahead() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// The next kernel may begin once all blocks have called this (or ended).
__device__ inline void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace sluice::kernels::recurrent::cuda
