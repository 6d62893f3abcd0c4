#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// How values that blocks hand on come to those that multiply them. Whoever has evaluated cells
/// writes to the exchange, and a warp counts up; another warp of each block polls the counters and
/// has chunks copied to a ring of stages, in all blocks of the cluster that need them.
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

/// The announcing warp: counts up for all blocks when the cells' warps have written a tile's
/// values.
__device__ inline void announce_items(const Geometry& geometry, const Part& part,
                                      const Items& items, const Barriers& barriers) {
  if (threadIdx.x % 32 != 0) return;
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    std::uint32_t* counter = counter_of(geometry, part, item.tile, part.chunk);
    wait_for_phase(barriers.written(item.tile), item.number % 2);
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  }
}

/// The copying warp. Lane l watches a chunk of each item: one of this block's share of a stage,
/// which is copied as one if all of it is there.
template <int kStages>
__device__ void copy_items(const Geometry& geometry, int directions, const Part& part,
                           const Items& items, const DepthPart& depth, const Sharers& sharers,
                           std::uint32_t ring, const Barriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int each = kStageChunks / sharers.count;
  const bool copies = lane < kStages * each, leads = lane % each == 0;
  const int stage = lane / each, piece = sharers.mine * each + lane % each;
  const int chunk = depth.chunk(stage * kStageChunks + piece);
  // Beyond the end chunks are not next to each other.
  const bool whole = depth.first + kStages * kStageChunks <= depth.all;
  const int bytes = whole ? each * kChunkBytes : kChunkBytes;
  const std::uint32_t share = copies ? ((1u << each) - 1) << (stage * each) : 0;
  const std::uint16_t mask = sharers.mask();
  RingPlace place;
  place.advance(copies ? stage : 0, geometry.ring);
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    const std::uint32_t* counter = counter_of(geometry, part, item.tile, chunk % geometry.chunks);
    const std::byte* from = values_of(geometry, directions, part, item.number, item.tile, chunk);
    const std::uint32_t wanted = (item.number + 1) * kAnnouncements;
    bool waits = copies, there = !copies;
    while (__any_sync(~0u, waits)) {
      if (!there) there = read_counter(counter) >= wanted;
      const std::uint32_t all = __ballot_sync(~0u, there);
      __syncwarp();
      if (!waits || (all & share) != share) continue;
      waits = false;
      if (whole && !leads) continue;
      wait_for_phase(barriers.empty(place.stage), place.parity ^ 1);
      order_with_copies();
      if (leads) arrive_and_expect(barriers.full(place.stage), kStageBytes);
      copy_to_sharers(ring + place.stage * kStageBytes + piece * kChunkBytes, from, bytes,
                      barriers.full(place.stage), mask);
    }
    place.advance(kStages, geometry.ring);
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
