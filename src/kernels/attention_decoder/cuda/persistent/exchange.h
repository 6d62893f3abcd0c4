#pragma once

#include "kernels/attention_decoder/cuda/persistent/block.h"

/// How what blocks hand on comes to all others: written to buffers in global memory and counted;
/// a warp of each block polls the counters and has the block's half of the depth copied to a ring.
///
/// Two buffers in turn suffice: what is made at step t + 2 follows from the fed output of t + 1 of
/// all rows, for which every block has multiplied all that was handed on at step t.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// In the order in which a step's are multiplied. Those of the fed output are of the step before.
enum Exchange { kFed, kInput, kUpperState, kLowerState };
enum Counters { kFedCounters, kLowerCounters, kUpperCounters, kQueryCounters };

/// Blocks that count up a counter each step: four clusters.
inline constexpr int kAnnouncements = 8;

/// Where four columns of a row are handed on; t may be -1.
template <typename S>
__device__ S* handed_on(const Arguments<S>& args, Exchange kind, int t, int row, int column) {
  const int line = (column / kTileDepth * kRows + row) * 128;
  const int piece = (column % kTileDepth / 8 ^ row % 8) * 16;
  return reinterpret_cast<S*>(args.exchange + (kind * 2 + (t & 1)) * kBufferBytes + line + piece) +
         column % 8;
}

template <typename S>
__device__ std::uint32_t* counter_of(const Arguments<S>& args, Counters kind, int index) {
  return args.counters + (kind * kTiles + index) * (kCounterBytes / 4);
}
/// All that the thread knows to be written can be read by whoever sees the counter.
__device__ inline void announce(std::uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ inline std::uint32_t read_counter(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

/// What comes through the ring, in order: h before the first step of both layers, then each step's
/// four, of which the lower layer's h is not wanted before the next step.
struct Items {
  static __device__ int state(int layer, int t) { return t < 0 ? layer : 5 + 4 * t - layer; }
  static __device__ int input(int layer, int t) { return 2 + 4 * t + layer; }
};

/// Place of a tile in the ring.
__device__ inline int stage_of(int item, int tile) { return (item * kOwnTiles + tile) % kStages; }
/// How often it was used before.
__device__ inline int uses_of(int item, int tile) { return (item * kOwnTiles + tile) / kStages; }

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

/// Copies an item when its counters have come that far: lane l watches the l-th of the block's
/// half. `whole`: a tile wants all of them; `readers`: kind of the barriers for those who read.
template <typename S>
__device__ void copy_item(const Arguments<S>& args, const Block& block, Exchange kind, int t,
                          int readers, int item, const std::uint32_t* counters,
                          std::uint32_t wanted, bool whole) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t* counter = counters + lane % kOwnTiles * (kCounterBytes / 4);
  const std::byte* from =
      args.exchange + (kind * 2 + (t & 1)) * kBufferBytes + block.rank * kOwnTiles * kTileBytes;
  bool there = wanted == 0;
#pragma unroll 1
  for (int tile = 0; tile < kOwnTiles;) {
    if (!there) there = read_counter(counter) >= wanted;
    const std::uint32_t missing = ~__ballot_sync(~0u, there) & ((1u << kOwnTiles) - 1);
    const int end = missing == 0 ? kOwnTiles : whole ? 0 : __ffs(static_cast<int>(missing)) - 1;
    if (end > tile) asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncwarp();
    // One lane alone: others could find a phase of a barrier ended, and the next one too.
#pragma unroll 1
    for (; tile < end; ++tile) {
      if (lane != 0) continue;
      const int stage = stage_of(item, tile);
      wait_for_phase(block.empty(stage), uses_of(item, tile) & 1 ^ 1);
      arrive_and_expect(block.full(readers, stage), kTileBytes);
      recurrent::cuda::copy_bytes(block.ring(stage), from + tile * kTileBytes, kTileBytes,
                                  block.full(readers, stage));
    }
    __syncwarp();
  }
}

/// The copying warp.
template <typename S>
__device__ void copy_items(const Arguments<S>& args, const Block& block) {
  const auto copy = [&](Exchange kind, int t, int item, Counters counters, int count, bool whole) {
    const Exchange readers = t >= 0 || kind == kFed ? kind : kind == kLowerState ? kFed : kInput;
    copy_item(args, block, kind, t, readers, item,
              counter_of(args, counters, block.rank * kOwnTiles),
              static_cast<std::uint32_t>(count * kAnnouncements), whole);
  };
  copy(kLowerState, -1, Items::state(0, -1), kLowerCounters, 0, false);
  copy(kUpperState, -1, Items::state(1, -1), kUpperCounters, 0, false);
#pragma unroll 1
  for (int t = 0; t < args.time; ++t) {
    copy(kFed, t - 1, Items::input(0, t), kFedCounters, t, true);
    copy(kInput, t, Items::input(1, t), kLowerCounters, t + 1, false);
    copy(kUpperState, t, Items::state(1, t), kUpperCounters, t + 1, false);
    if (t + 1 == args.time) break;
    copy(kLowerState, t, Items::state(0, t), kLowerCounters, 0, false);
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
