#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"

/// How h comes from the block that has made it to the others of the cluster: written to the block's
/// own shared memory, where the copy engine takes a warpgroup's part as one run of bytes to the same
/// place of each other block.
///
/// No piece is overwritten before it has been read. h after step n + 2 lies where h after step n
/// was. Who sends it has h of step n + 1 from all warpgroups of all blocks, and each of them had
/// waited for its products with h of step n (and so for copies from the others, whose own source is
/// read by then) before it sent that.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Copies within the cluster; both addresses of `to` and the barrier are the other block's.
__device__ inline void copy_in_cluster(std::uint32_t to, std::uint32_t from, int bytes,
                                       std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Hands on what a warpgroup has written of h, `bytes` at `piece`: called by all of its threads. At
/// the last step nobody but the block itself is told.
__device__ inline void hand_on(int group, int rank, std::uint32_t piece, int bytes,
                               std::uint32_t barrier, bool last) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
  const int peer = static_cast<int>(threadIdx.x) % 128;
  if (peer >= kBlocks) return;
  if (peer == rank) {
    arrive_and_expect(barrier, last ? 0 : (kBlocks - 1) * bytes);
  } else if (!last) {
    const auto there = static_cast<std::uint32_t>(peer);
    copy_in_cluster(address_in(there, piece), piece, bytes, address_in(there, barrier));
  }
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
