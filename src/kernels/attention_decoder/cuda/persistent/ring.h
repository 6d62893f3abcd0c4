#pragma once

#include "kernels/attention_decoder/cuda/persistent/block.h"

/// How tiles of what blocks publish come to all others: they are written to global memory and
/// counted; a warp of each block polls the counters and has its block's part of the depth copied to
/// a ring, whose places warpgroups free again when they have multiplied them.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// All that the thread knows to be written can be read by whoever sees the counter.
__device__ inline void publish(std::uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ inline std::uint32_t read_counter(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

/// Where a reader is in the phases of the barriers of one kind of items, all of which it reads: a
/// bit a stage. (Of a barrier whose phases it doesn't all await it could not tell which has ended.)
class Phases {
 public:
  __device__ std::uint32_t next(int stage) {
    const std::uint32_t parity = bits_ >> stage & 1;
    bits_ ^= 1u << stage;
    return parity;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// Counters that the copying warp watches for an item, a lane each.
inline constexpr int kWatched = 8;

/// Whether the block itself has a tile copied, the `number`-th that the ring has. Where both blocks
/// of a cluster want the same tiles they take turns and copy them for both.
template <typename Block>
__device__ bool copies(const Block& block, int number) {
  return !Block::kShares || number % kCluster == block.rank;
}

/// Has the `number`-th tile copied, when its place is free.
template <typename Block>
__device__ void copy_tile(const Block& block, const std::byte* from, int number, int kind) {
  const int stage = number % Block::kStages;
  wait_for_phase(block.empty(stage), number / Block::kStages & 1 ^ 1);
  arrive_and_expect(block.full(kind, stage), kTileBytes);
  if constexpr (Block::kShares) {
    recurrent::cuda::copy_to_sharers(block.ring(stage), from, kTileBytes, block.full(kind, stage),
                                     (1 << kCluster) - 1);
  } else {
    recurrent::cuda::copy_bytes(block.ring(stage), from, kTileBytes, block.full(kind, stage));
  }
}

/// Copies an item of kTiles tiles that lie in a row when its counters have come that far. `first`:
/// how many tiles the ring has had before; `kind`: of the barriers for those who read; `whole`: a
/// tile wants all counters, not its own alone.
template <int kTiles, typename Block>
__device__ void copy_tiles(const Block& block, const std::byte* from, int first, int kind,
                           const std::uint32_t* counters, std::uint32_t wanted, bool whole) {
  static_assert(kTiles <= kWatched);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t* counter = counters + lane % kWatched * (kCounterBytes / 4);
  bool there = wanted == 0;
  if constexpr (Block::kShares) {
    there = there || (!whole && !copies(block, first + lane));
    // What the other block copies: all that came here before by the same barrier has been read,
    // or nobody would have published this item.
    if (lane < kTiles && !copies(block, first + lane)) {
      arrive_and_expect(block.full(kind, (first + lane) % Block::kStages), kTileBytes);
    }
    __syncwarp();
  }
#pragma unroll 1
  for (int tile = 0; tile < kTiles;) {
    if (!there) there = read_counter(counter) >= wanted;
    const std::uint32_t missing = ~__ballot_sync(~0u, there) & ((1u << kWatched) - 1);
    const int end = missing == 0 ? kTiles : whole ? 0 : __ffs(static_cast<int>(missing)) - 1;
    if (end > tile) asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncwarp();
    // One lane alone: others could find a phase of a barrier ended, and the next one too.
#pragma unroll 1
    for (; tile < end; ++tile) {
      if (lane != 0 || !copies(block, first + tile)) continue;
      copy_tile(block, from + tile * kTileBytes, first + tile, kind);
    }
    __syncwarp();
  }
}

/// Tells the copying warp that a warp has read a tile; `readers`: warpgroups that read the item.
template <typename Block>
__device__ void release(const Block& block, int stage, int readers) {
  if (threadIdx.x % 32 != 0) return;
  if constexpr (Block::kShares) {
    static_assert(Block::kStages % kCluster == 0);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(
                     address_in(static_cast<std::uint32_t>(stage % kCluster), block.empty(stage))),
                 "r"(2 / readers)
                 : "memory");
  } else {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"(block.empty(stage)),
                 "r"(2 / readers)
                 : "memory");
  }
}

/// To be called by one thread of a block.
template <typename Block>
__device__ void begin_ring(const Block& block) {
  constexpr int kReaders = Block::kShares ? kCluster : 1;
  for (int i = 0; i < Block::kStages; ++i) {
    begin_barrier(block.empty(i), 2 * kProductWarps * kReaders);
  }
  for (int i = Block::Offsets::kFull; i < Block::Offsets::kEmpty; ++i) {
    begin_barrier(block.barrier(i), 1);
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
