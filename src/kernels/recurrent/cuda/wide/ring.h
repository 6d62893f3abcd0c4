#pragma once

#include "kernels/recurrent/cuda/wide/block.h"

/// How values reach the blocks that multiply them. The warps that evaluate cells write them to the
/// exchange, and another warp counts up. A warp of each block polls the counters and issues copies
/// of chunks to a ring of stages, in all blocks of the cluster that need them.
namespace sluice::kernels::recurrent::cuda::wide {

/// The chunks of the exchange that a block multiplies, from `first` on. Chunks beyond the end are
/// the last one again, and have no weights.
struct DepthPart {
  int first, all;
  __device__ int chunk(int i) const { return min(first + i, all - 1); }
};

__device__ inline std::uint32_t read_counter(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
/// From now on, TMA copies see what was written to global memory.
__device__ inline void order_with_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Whether a phase has ended, of which the one before has.
__device__ inline bool has_passed(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t passed;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

/// The counters that publish the values of a chunk, one per tile.
class Announced {
 public:
  __device__ Announced(const Geometry& geometry, const Part& part, int chunk)
      : geometry_(geometry),
        first_((part.direction * geometry.tiles + part.first_tile) * geometry.chunks + chunk) {}
  __device__ std::uint32_t* counter(int tile) const {
    return geometry_.counters + (first_ + tile * geometry_.chunks) * (kCounterBytes / 4);
  }

 private:
  const Geometry& geometry_;
  int first_;
};

/// The values of a chunk in the exchange, from its `inside`-th byte on. It takes one register, for
/// threads that have few.
class Values {
 public:
  __device__ Values(const Geometry& geometry, int directions, const Part& part, int chunk,
                    int inside)
      : geometry_(geometry),
        turn_bytes_(directions * geometry.tiles * geometry.tile_bytes()),
        first_((part.direction * geometry.tiles + part.first_tile) * geometry.tile_bytes() +
               chunk * geometry.chunk_bytes() + inside) {}
  /// The `number`-th values that are published for a tile.
  __device__ std::byte* at(int number, int tile) const {
    return geometry_.exchange +
           (first_ + tile * geometry_.tile_bytes() + (number & 1) * turn_bytes_);
  }

 private:
  const Geometry& geometry_;
  int turn_bytes_, first_;
};

/// Counts up with release semantics: a thread that sees the count sees everything written before.
__device__ inline void announce(std::uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

/// The publishing warp: counts up for all blocks when the cells' warps have written a tile's
/// values.
__device__ inline void announce_items(const Geometry& geometry, const Part& part,
                                      const Items& items, const Barriers& barriers) {
  if (threadIdx.x % 32 != 0) return;
  const Announced announced(geometry, part, part.chunk);
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    std::uint32_t* counter = announced.counter(item.tile);
    wait_for_phase(barriers.written(item.tile), item.number % 2);
    announce(counter);
  }
}

/// Copies the block's weights for the stages that are not in registers to shared memory; called by
/// one thread.
__device__ inline void copy_weights(const void* weights, const Geometry& geometry, const Part& part,
                                    std::uint32_t to, const Barriers& barriers) {
  const int count = geometry.shared_stages();
  if (count == 0) return;
  const int first = (part.block() + 1) * geometry.stages - count;
  const auto* from =
      static_cast<const std::byte*>(weights) + static_cast<std::int64_t>(first) * kStageWeightBytes;
  arrive_and_expect(barriers.weights(), count * kStageWeightBytes);
  const auto self = static_cast<std::uint16_t>(1u << cluster_rank());
  for (int i = 0; i < count; ++i) {
    copy_to_sharers(to + i * kStageWeightBytes, from + i * kStageWeightBytes, kStageWeightBytes,
                    barriers.weights(), self);
  }
}

/// The copying warp. Lane l watches a chunk of each item: one of this block's share of a stage,
/// which is copied as one if all of it is there. An item may have more stages than the ring.
__device__ inline void copy_items(const Geometry& geometry, int directions, const Part& part,
                                  const Items& items, const DepthPart& depth,
                                  const Sharers& sharers, std::uint32_t ring,
                                  const Barriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int each = kStageChunks / sharers.count;
  const bool copies = lane < geometry.stages * each, leads = lane % each == 0;
  const int stage = lane / each, piece = sharers.mine * each + lane % each;
  const int chunk = depth.chunk(stage * kStageChunks + piece);
  // Beyond the end chunks are not next to each other.
  const bool whole = depth.first + geometry.stages * kStageChunks <= depth.all;
  const int bytes = (whole ? each : 1) * geometry.chunk_bytes();
  const std::uint32_t share = copies ? ((1u << each) - 1) << (stage * each) : 0;
  // Of the stage whose place in the ring this one takes.
  const std::uint32_t before = stage < geometry.ring ? 0 : share >> (geometry.ring * each);
  const std::uint16_t mask = sharers.mask();
  const Announced announced(geometry, part, chunk % geometry.chunks);
  const Values values(geometry, directions, part, chunk, 0);
  RingPlace place;
  place.advance(copies ? stage : 0, geometry.ring);
  for (Item item = items.first(); items.has(item); item = items.after(item)) {
    const std::uint32_t* counter = announced.counter(item.tile);
    const std::byte* from = values.at(item.number, item.tile);
    const std::uint32_t wanted = (item.number + 1) * kAnnouncements;
    bool waits = copies, there = !copies;
    while (const std::uint32_t waiting = __ballot_sync(~0u, waits)) {
      if (!there) there = read_counter(counter) >= wanted;
      const std::uint32_t all = __ballot_sync(~0u, there);
      if (!waits || (all & share) != share || (waiting & before) != 0) continue;
      if (!has_passed(barriers.empty(place.stage), place.parity ^ 1)) continue;
      waits = false;
      if (whole && !leads) continue;
      order_with_copies();
      if (leads) arrive_and_expect(barriers.full(place.stage), geometry.stage_bytes());
      copy_to_sharers(ring + place.stage * geometry.stage_bytes() + piece * geometry.chunk_bytes(),
                      from, bytes, barriers.full(place.stage), mask);
    }
    place.advance(geometry.stages, geometry.ring);
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
