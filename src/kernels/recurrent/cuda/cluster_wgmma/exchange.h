#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"

/// How a block's h reaches the other blocks of the cluster. Cells write it to the block's own
/// shared memory. From there, TMA copies the block's part as one run of bytes to the same place in
/// each other block.
///
/// No piece is overwritten before it has been read. h after step n + 2 lies where h after step n
/// was. A block computes it after it has received h after step n + 1 from all blocks. Each of them
/// sent that when all its warpgroups had finished their products with h after step n. That h had
/// arrived from all blocks, so the source of its copies had been read too.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Copies within the cluster; `to` and the barrier are the other block's.
__device__ inline void copy_in_cluster(std::uint32_t to, std::uint32_t from, int bytes,
                                       std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Sends `bytes` at `piece` to all other blocks; called by one thread. Each block's barrier expects
/// as much from all others together.
__device__ inline void send_to_others(int rank, std::uint32_t piece, int bytes,
                                      std::uint32_t barrier) {
  arrive_and_expect(barrier, (kBlocks - 1) * bytes);
#pragma unroll
  for (int i = 1; i < kBlocks; ++i) {
    const auto other = static_cast<std::uint32_t>((rank + i) % kBlocks);
    copy_in_cluster(address_in(other, piece), piece, bytes, address_in(other, barrier));
  }
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
