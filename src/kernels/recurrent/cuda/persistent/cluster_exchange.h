#pragma once

#include <cstdint>

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

/// How the blocks of a cluster write into each other's shared memory: data come by themselves and
/// count as bytes at a barrier of the block that waits for them (wait_for_phase of tensor_copy.h,
/// which acquires for the block alone: at the scope of the cluster it would invalidate the
/// first-level cache with each wait, and only shared memory is read).
namespace sluice::kernels::recurrent::cuda::persistent {

/// Both addresses are in the block that receives. Threads that have nothing to send don't branch.
__device__ inline void send(std::uint32_t to, const uint4& value, std::uint32_t barrier,
                            bool sends) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "@p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, "
      "[%5];\n}" ::"r"(to),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(barrier),
      "r"(static_cast<int>(sends))
      : "memory");
}
/// A barrier of `threads` of the block.
__device__ inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// Copies four bytes to shared memory in the background.
__device__ inline void copy_ahead(std::uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
/// Copies sixteen bytes, aligned alike.
__device__ inline void copy_four_ahead(std::uint32_t to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline float load_shared(std::uint32_t address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}
__device__ inline void store_shared(std::uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups of copies but the last `kPending`.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
