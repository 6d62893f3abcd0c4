#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// How the warps of a block share its work.
namespace sluice::kernels::recurrent::cuda::wide {

inline constexpr int kProductGroups = 2, kProductWarps = 8, kCellWarps = 4;
/// Of a thread; together, 128 threads each role and two of the first, all that a processor has.
inline constexpr int kProductRegisters = 176, kCellRegisters = 120, kCopyRegisters = 40;
static_assert((2 * kProductRegisters + kCellRegisters + kCopyRegisters) * 128 == 65536);

template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Called by one thread. Those who read a stage arrive from all sharers; `senders` and `readers`
/// arrive for the sums on their way from products to cells.
__device__ inline void begin_barriers(const Barriers& barriers, int tiles, int sharers, int senders,
                                      int readers) {
  for (int i = 0; i < barriers.ring; ++i) {
    begin_barrier(barriers.full(i), 1);
    begin_barrier(barriers.empty(i), sharers * kProductWarps);
  }
  for (int i = 0; i < 2; ++i) {
    begin_barrier(barriers.parts_full(i), senders);
    begin_barrier(barriers.parts_empty(i), readers);
  }
  begin_barrier(barriers.weights(), 1);
  for (int i = 0; i < tiles; ++i) begin_barrier(barriers.written(i), kCellWarps);
  publish_barriers();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
