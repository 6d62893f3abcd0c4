#pragma once

#include "kernels/attention_decoder/cuda/persistent/ring.h"

/// What forward's blocks publish, of which each has half of the depth copied to its ring.
///
/// Two buffers in turn suffice: what is made at step t + 2 follows from the fed output of t + 1 of
/// all rows, for which every block has multiplied all that was published at step t.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// In the order in which a step's are multiplied. Those of the fed output are of the step before.
enum Exchange { kFed, kInput, kUpperState, kLowerState };
enum Counters { kFedCounters, kLowerCounters, kUpperCounters, kQueryCounters };

/// Blocks that count up a counter each step: four clusters.
inline constexpr int kAnnouncements = 8;

/// Where four columns of a row are published; t may be -1.
template <typename S>
__device__ S* published(const Arguments<S>& args, Exchange kind, int t, int row, int column) {
  const int line = (column / kTileDepth * kRows + row) * 128;
  const int piece = (column % kTileDepth / 8 ^ row % 8) * 16;
  return reinterpret_cast<S*>(args.exchange + (kind * 2 + (t & 1)) * kBufferBytes + line + piece) +
         column % 8;
}

template <typename S>
__device__ std::uint32_t* counter_of(const Arguments<S>& args, Counters kind, int index) {
  return args.counters + (kind * kTiles + index) * (kCounterBytes / 4);
}
/// What comes through the ring, in order: h before the first step of both layers, then each step's
/// four, of which the lower layer's h is not wanted before the next step.
struct Items {
  static __device__ int state(int layer, int t) { return t < 0 ? layer : 5 + 4 * t - layer; }
  static __device__ int input(int layer, int t) { return 2 + 4 * t + layer; }
};
static_assert(kOwnTiles == kWatched);

/// The copying warp.
template <typename S>
__device__ void copy_items(const Arguments<S>& args, const Block& block) {
  const auto copy = [&](Exchange kind, int t, int item, Counters counters, int count, bool whole) {
    const Exchange readers = t >= 0 || kind == kFed ? kind : kind == kLowerState ? kFed : kInput;
    const std::byte* from =
        args.exchange + (kind * 2 + (t & 1)) * kBufferBytes + block.rank * kOwnTiles * kTileBytes;
    copy_tiles<kOwnTiles>(block, from, item * kOwnTiles, readers,
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
