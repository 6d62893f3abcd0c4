#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// How values that blocks hand on come to those that multiply them. Whoever has evaluated cells
/// writes to the exchange and counts up; a warp of each block polls the counters and has chunks
/// copied to a ring of stages, in all blocks of the cluster that need them.
namespace sluice::kernels::recurrent::cuda::wide {

/// A place in the ring, and how often it was used.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(int stages, int ring) {
    stage += stages;
    if (stage < ring) return;
    stage -= ring;
    parity ^= 1;
  }
};

/// Which chunks of the exchange a block multiplies: from `first` on, what is beyond the end is the
/// last one (and has no weights).
struct DepthPart {
  int first, all;
  __device__ int chunk(int i) const { return min(first + i, all - 1); }
};

__device__ inline std::uint32_t read_counter(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
/// What was written to global memory can be read by copies from now on.
__device__ inline void order_with_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
__device__ inline void copy_to_sharers(std::uint32_t to, const std::byte* from, int bytes,
                                       std::uint32_t barrier, std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(mask)
      : "memory");
}

/// Where the values of a tile are announced.
__device__ inline std::uint32_t* counter_of(const Geometry& geometry, const Part& part, int tile,
                                            int chunk) {
  const int index =
      (part.direction * geometry.tiles + part.first_tile + tile) * geometry.chunks + chunk;
  return geometry.counters + static_cast<std::int64_t>(index) * (kCounterBytes / 4);
}
/// The values that are announced as `number`-th.
__device__ inline std::byte* values_of(const Geometry& geometry, int directions, const Part& part,
                                       int number, int tile, int chunk) {
  const int index =
      (number % 2 * directions + part.direction) * geometry.tiles + part.first_tile + tile;
  return geometry.exchange +
         (static_cast<std::int64_t>(index) * geometry.depth_chunks + chunk) * kChunkBytes;
}

/// Called by the cells' warps when all their values are written.
__device__ inline void announce(std::uint32_t* counter) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  }
}

/// The copying warp. Lane l has a chunk of each item: one of this block's share of a stage.
template <int kStages>
__device__ void copy_items(const Geometry& geometry, int directions, const Part& part,
                           const Items& items, const DepthPart& depth, const Sharers& sharers,
                           std::uint32_t ring, const Barriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int each = kStageChunks / sharers.count;
  const bool copies = lane < kStages * each;
  const int stage = lane / each, piece = sharers.mine * each + lane % each;
  const int chunk = depth.chunk(stage * kStageChunks + piece);
  const std::uint16_t mask = sharers.mask();
  RingPlace place;
  place.advance(copies ? stage : 0, geometry.ring);
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    const std::uint32_t* counter =
        counter_of(geometry, part, item.tile, chunk % geometry.chunks);
    const std::byte* from = values_of(geometry, directions, part, item.number, item.tile, chunk);
    const std::uint32_t wanted = (item.number + 1) * kAnnouncements;
    bool waits = copies;
    while (__any_sync(~0u, waits)) {
      if (!waits || read_counter(counter) < wanted) continue;
      waits = false;
      wait_for_phase(barriers.empty(place.stage), place.parity ^ 1);
      order_with_copies();
      if (lane % each == 0) arrive_and_expect(barriers.full(place.stage), kStageBytes);
      copy_to_sharers(ring + place.stage * kStageBytes + piece * kChunkBytes, from, kChunkBytes,
                      barriers.full(place.stage), mask);
    }
    place.advance(kStages, geometry.ring);
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
