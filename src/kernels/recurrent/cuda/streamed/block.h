#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/streamed/arguments.h"
#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// What a block works on, its barriers, and how values and weights come to it.
namespace sluice::kernels::recurrent::cuda::streamed {

/// Addresses of the block's barriers.
struct Barriers {
  std::uint32_t base;

  __device__ std::uint32_t full(int stage) const { return base + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return full(kMostRing + stage); }
  __device__ std::uint32_t weights_full(int stage) const { return full(2 * kMostRing + stage); }
  __device__ std::uint32_t weights_empty(int stage) const {
    return weights_full(kMostWeightRing + stage);
  }
  /// Of sums that come to the block, in two buffers: it counts their bytes, or where they stay in
  /// the block the threads that have written theirs.
  __device__ std::uint32_t sums(int buffer) const {
    return weights_full(2 * kMostWeightRing + buffer);
  }
  __device__ void expect_sums(const Geometry& geometry, int buffer) const {
    if (!geometry.has_whole_depth()) arrive_and_expect(sums(buffer), geometry.sums_bytes());
  }
  /// For values that are ready to be published.
  __device__ std::uint32_t written() const { return sums(2); }
  /// Of weights that stay in shared memory.
  __device__ std::uint32_t resident() const { return sums(3); }

  /// Called by one thread.
  __device__ void begin(const Geometry& geometry) const {
    for (int i = 0; i < geometry.ring; ++i) {
      begin_barrier(full(i), 1);
      begin_barrier(empty(i), kProductWarps);
    }
    for (int i = 0; i < geometry.weight_ring; ++i) {
      begin_barrier(weights_full(i), 1);
      begin_barrier(weights_empty(i), kProductWarps);
    }
    for (int i = 0; i < 2; ++i) {
      begin_barrier(sums(i), geometry.has_whole_depth() ? 32 * kProductWarps : 1);
    }
    begin_barrier(written(), geometry.cell_warps());
    begin_barrier(resident(), 1);
    publish_barriers();
    for (int i = 0; i < 2; ++i) expect_sums(geometry, i);
  }
};

/// The block's units, and its part of the depth: what is beyond the end is the last chunk (and has
/// no weights).
struct Part {
  int block, rank, first_unit, first_chunk;

  __device__ explicit Part(const Geometry& geometry)
      : block(static_cast<int>(blockIdx.x)),
        rank(static_cast<int>(cluster_rank())),
        first_unit(block * geometry.units()),
        first_chunk(rank * geometry.depth) {}
  __device__ int chunk(const Geometry& geometry, int i) const {
    return min(first_chunk + i, geometry.depth_chunks - 1);
  }
};

/// The most steps that a row has.
__device__ inline int steps_of(const Extent& extent) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int length = 0;
  if (lane < extent.rows) length = extent.lengths ? extent.lengths[lane] : extent.time;
  return __reduce_max_sync(~0u, length);
}

/// The `number`-th values that are published.
__device__ inline std::byte* values_of(const Geometry& geometry, int number, int chunk) {
  return geometry.exchange + (number % 2 * geometry.depth_chunks + chunk) * geometry.chunk_bytes();
}
__device__ inline std::uint32_t* counter_of(const Geometry& geometry, int chunk) {
  return geometry.counters + chunk * (kCounterBytes / 4);
}

/// The publishing warp: counts up for all blocks when the cells' warps have written their values.
__device__ inline void announce(const Geometry& geometry, const Extent& extent, const Part& part,
                                const Barriers& barriers, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int last_unit = min(part.first_unit + geometry.units(), extent.hidden) - 1;
  const int chunk = part.first_unit / kChunkUnits + lane;
  if (last_unit < part.first_unit || chunk > last_unit / kChunkUnits) return;
  for (int number = 0; number < count; ++number) {
    wait_for_phase(barriers.written(), number % 2);
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter_of(geometry, chunk))
                 : "memory");
  }
}

/// The warp that copies values. A lane watches a chunk; chunks are copied in their order, as many
/// at once as are there and have a place in the ring.
__device__ inline void copy_values(const Geometry& geometry, const Extent& extent, const Part& part,
                                   std::uint32_t ring, const Barriers& barriers, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RingPlace first;
  for (int number = 0; number < count; ++number) {
    for (int begin = 0; begin < geometry.depth; begin += 32) {
      const int here = min(geometry.depth - begin, 32);
      const int chunk = part.chunk(geometry, begin + min(lane, here - 1));
      const int units = chunk % geometry.chunks * kChunkUnits;
      // Blocks that have some of the units.
      const int last = min(units + kChunkUnits, extent.hidden) - 1;
      const std::uint32_t blocks = last / geometry.units() - units / geometry.units() + 1;
      const std::uint32_t wanted = (number + 1) * blocks;
      const std::uint32_t* counter = counter_of(geometry, chunk % geometry.chunks);
      const std::byte* from = values_of(geometry, number, chunk);
      RingPlace mine = first;
      mine.advance(lane, geometry.ring);
      bool there = false;
      for (int done = 0; done < here;) {
        if (!there) there = wide::read_counter(counter) >= wanted;
        const bool ready = there && lane >= done && lane < min(here, done + geometry.ring) &&
                           wide::has_passed(barriers.empty(mine.stage), mine.parity ^ 1);
        const std::uint32_t lacking = ~(__ballot_sync(~0u, ready) >> done);
        const int now = lacking == 0 ? 32 : __ffs(static_cast<int>(lacking)) - 1;
        if (lane >= done && lane < done + now) {
          wide::order_with_copies();
          arrive_and_expect(barriers.full(mine.stage), geometry.chunk_bytes());
          copy_bytes(ring + mine.stage * geometry.chunk_bytes(), from, geometry.chunk_bytes(),
                     barriers.full(mine.stage));
        }
        done += now;
      }
      first.advance(here, geometry.ring);
    }
  }
}

/// The thread that copies weights. It copies those that stay first. Then in every step it streams
/// the others as soon as the ring has a place, whether values have arrived or not. If L2 has no
/// room for all of them, the first ones are kept there. In the last step none are, because later
/// kernels need the room.
__device__ inline void copy_weights(const Geometry& geometry, const std::byte* weights,
                                    std::uint32_t shared, const BlockMemory& memory,
                                    const Barriers& barriers, int count) {
  const int bytes = geometry.weight_bytes();
  const std::byte* others = weights + geometry.registers() * kRegisterChunkBytes;
  const int beside = geometry.has_beside() ? geometry.depth * kBesideChunkBytes : 0;
  arrive_and_expect(barriers.resident(), geometry.resident() * bytes + beside);
  if (beside > 0) {
    copy_bytes(shared + memory.beside,
               others + static_cast<std::int64_t>(geometry.others()) * bytes, beside,
               barriers.resident());
  }
  std::uint32_t to = shared + BlockMemory::kResident;
  for (int i = 0; i < geometry.others(); ++i) {
    if (geometry.is_streamed(i)) continue;
    copy_bytes(to, others + static_cast<std::int64_t>(i) * bytes, bytes, barriers.resident());
    to += bytes;
  }
  if (geometry.streamed == 0) return;
  const std::uint64_t keep = keep_in_cache(), leave = leave_cache();
  RingPlace place;
  for (int number = 0; number < count; ++number) {
    int kept = number + 1 < count ? geometry.kept : 0;
    for (int i = 0; i < geometry.others(); ++i) {
      if (!geometry.is_streamed(i)) continue;
      wait_for_phase(barriers.weights_empty(place.stage), place.parity ^ 1);
      arrive_and_expect(barriers.weights_full(place.stage), bytes);
      const std::uint32_t to = shared + memory.weight_ring + place.stage * bytes;
      const std::byte* from = others + static_cast<std::int64_t>(i) * bytes;
      if (geometry.kept == 0) {
        copy_bytes(to, from, bytes, barriers.weights_full(place.stage));
      } else {
        copy_bytes(to, from, bytes, barriers.weights_full(place.stage), kept-- > 0 ? keep : leave);
      }
      place.next(geometry.weight_ring);
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
