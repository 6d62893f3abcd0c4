#pragma once

#include "kernels/recurrent/cuda/projected/copies.h"
#include "kernels/recurrent/cuda/projected/gates.h"
#include "kernels/recurrent/cuda/projected/projection.h"

namespace sluice::kernels::recurrent::cuda::projected {

__device__ inline void begin_barriers(const Block& block, int octets) {
  const Barriers& barriers = block.barriers;
  for (int stage = 0; stage < block.stack.ring; ++stage) {
    begin_barrier(barriers.full(stage), 1);
    begin_barrier(barriers.empty(stage), kWarps * kCluster);
  }
  for (int stage = 0; stage < barriers.weight_ring; ++stage) {
    begin_barrier(barriers.weights_full(stage), 1);
    begin_barrier(barriers.weights_empty(stage), kWarps);
  }
  begin_barrier(barriers.resident(), 1);
  begin_barrier(barriers.sums_full(), 1);
  begin_barrier(barriers.sums_empty(), octets * kCluster);
  publish_barriers();
}

/// All layers over the whole sequence.
template <typename T, int kOctets>
__global__ void __launch_bounds__(kThreads, 1) stack_kernel(const __grid_constant__ Stack stack) {
  extern __shared__ __align__(128) std::byte memory[];
  const int index = static_cast<int>(blockIdx.x) / stack.blocks;
  const BlockMemory places(stack.resident, stack.own_pieces(), kOctets, stack.ring,
                           stack.weight_ring);
  const std::uint32_t base = shared_address(memory);
  const Block block{stack,
                    stack.layers[index],
                    static_cast<int>(blockIdx.x) % stack.blocks,
                    index,
                    memory,
                    base,
                    places,
                    {base + places.barriers, stack.ring, stack.weight_ring},
                    (index + 1) * stack.blocks == static_cast<int>(gridDim.x)};
  if (threadIdx.x == 0) begin_barriers(block, kOctets);
  __syncthreads();
  // Nothing is sent to a block whose barriers have not begun.
  cluster_arrive();
  cluster_wait();
  if (own_warp() >= kWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters));
    if (threadIdx.x == kWorkers) {
      wait_for_kernel_ahead();
      copy_values(block, kOctets);
    }
    if (threadIdx.x == kWorkers + 32) copy_weights<kOctets>(block);
    if (own_warp() == kWarps + 2) announce(block);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkerRegisters));
    Gates<T, kOctets> gates(block);
    Projection<T, kOctets> projection(block);
    ValueRing ring(block);
    gates.rehearse();
    wait_for_kernel_ahead();
    in_order(
        block, [&](int t, int tile) { gates.run(t, tile, ring); },
        [&](int t, int tile) { projection.run(t, tile, ring); });
  }
  // Nobody leaves while others still send to it.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sluice::kernels::recurrent::cuda::projected
