#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// How the warps of a block share its work.
namespace sluice::kernels::recurrent::cuda::wide {

inline constexpr int kProductGroups = 2, kCellGroups = 2, kProductWarps = 8, kCellWarps = 8;
inline constexpr int kProductThreads = 32 * kProductWarps;
/// Warps that publish values; the rest of three read ahead. Publishing scaled values takes so long
/// that two warps take turns, if registers suffice for one warp that reads for all cells.
constexpr int announcing_warps(bool scaled, int stages) {
  return scaled && stages <= kRegisterStages ? 2 : 1;
}
constexpr int reading_warps(int announcing) { return 3 - announcing; }
/// Registers of a thread in each role. Together they are what a block begins with: 96 per thread.
struct Registers {
  int product, cell, copy;
};
/// The registers of a kernel that is compiled for so many stages.
constexpr Registers registers_for(int stages) {
  if (stages > kRegisterStages) return {168, 56, 32};
  return stages == kRegisterStages ? Registers{152, 64, 48} : Registers{144, 72, 48};
}
constexpr bool takes_all(const Registers& each) {
  return (2 * each.product + 2 * each.cell + each.copy) * 128 == 96 * kThreads;
}
static_assert(takes_all(registers_for(kRegisterStages - 1)));
static_assert(takes_all(registers_for(kRegisterStages)));
static_assert(takes_all(registers_for(kRegisterStages + 1)));

template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Arrivals for what so many warps read ahead: see read_ahead.
__device__ inline int input_arrivals(int warps, int hidden) {
  return 32 * warps * (hidden % 2 == 0 ? 1 : 2);
}

/// Called by one thread. The warps that read a stage arrive from all sharers. `senders` and
/// `readers` arrive for the sums on their way from products to cells, `writers` for values to
/// publish, `inputs` for inputs read ahead. Each thread arrives for its own stores and reads of
/// shared memory. One arrival per warp, after __syncwarp(), is no faster, and compute-sanitizer's
/// racecheck doesn't see that it stands for the other lanes.
__device__ inline void begin_barriers(const Barriers& barriers, const Geometry& geometry, int tiles,
                                      int senders, int readers, int writers, int inputs) {
  for (int i = 0; i < geometry.ring; ++i) {
    begin_barrier(barriers.full(i), 1);
    begin_barrier(barriers.empty(i), geometry.sharers * kProductWarps);
  }
  for (int i = 0; i < 2; ++i) {
    begin_barrier(barriers.parts_full(i), senders);
    begin_barrier(barriers.parts_empty(i), readers);
  }
  begin_barrier(barriers.weights(), 1);
  for (int i = 0; i < geometry.ahead; ++i) {
    begin_barrier(barriers.inputs_full(i), inputs);
    begin_barrier(barriers.inputs_empty(i), kCellThreads);
  }
  for (int i = 0; i < tiles; ++i) begin_barrier(barriers.written(i), writers);
  publish_barriers();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
