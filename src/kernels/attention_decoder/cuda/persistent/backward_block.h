#pragma once

#include "kernels/attention_decoder/cuda/persistent/backward_arguments.h"
#include "kernels/attention_decoder/cuda/persistent/ring.h"

/// What a block of backward is, and how what it publishes comes to others.
namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Offsets in bytes. Weights are tiles of 64 lines of the depth, 64 columns each.
struct BackwardMemory {
  static constexpr int kStages = kGateTiles;  ///< of the ring: gates are read twice
  static constexpr bool kShares = true;       ///< the blocks of a cluster have the same slice
  static constexpr int kStateWeights = 0;
  static constexpr int kAskedWeights = kStateWeights + kLayers * kGateTiles * kTileBytes;
  static constexpr int kRing = kAskedWeights + kAskedTiles * kTileBytes;
  /// Sums over a warp's columns, of this block and of the other.
  static constexpr int kScores = kRing + kStages * kTileBytes;
  static constexpr int kScoreBytes = 4 * kMostSource * 4;
  static constexpr int kBarriers = kScores + 2 * kScoreBytes;
  static constexpr int kFull = 0, kEmpty = kPublishedKinds * kStages, kScoreSums = kEmpty + kStages,
                       kCount = kScoreSums + 1;
  static constexpr int kBytes = kBarriers + kCount * 8;
};
static_assert(BackwardMemory::kBytes <= 227 * 1024);

struct BackwardBlock : BlockOf<BackwardMemory> {
  int slice, group;  ///< of the depth and of the columns

  __device__ explicit BackwardBlock(std::byte* memory)
      : BlockOf(memory), slice(cluster % kSlices), group(cluster / kSlices * kCluster + rank) {}
};

/// Steps go back: the n-th is of t = time - 1 - n.
template <typename S>
__device__ std::byte* published(const BackwardArguments<S>& args, Published kind, int n) {
  return args.exchange + (static_cast<int>(kind) * 2 + (n & 1)) * kPublishedBytes;
}
template <typename S>
__device__ std::uint32_t* counter_of(const BackwardArguments<S>& args, Published kind, int index) {
  return args.counters + (static_cast<int>(kind) * kClusters + index) * (kCounterBytes / 4);
}
/// Where four of a row's gradients are in a tile, `depth` the first.
__device__ inline int place_in_tile(int row, int depth) {
  return row * 128 + (depth / 8 ^ row % 8) * 16 + depth % 8 * 2;
}
/// The tile of a column of the output, or of the query.
__device__ inline int asked_tile(bool of_query, int column) {
  const int slice = column / (kWidth / kSlices);
  return slice * kAskedTiles + (of_query ? 2 : 0) + column / kTileDepth % 2;
}

/// How many tiles the ring has had before the n-th step's item of that kind.
__device__ inline int first_tile(Published kind, int n) {
  return n * kStepTiles + (kind == Published::kAsked        ? 0
                           : kind == Published::kUpperGates ? kAskedTiles
                                                            : kAskedTiles + kGateTiles);
}

/// The copying warp. Both blocks of a cluster count up its gates' counter. A block's output and
/// query count up one of the eight of its half of the columns, which eight clusters have.
template <typename S>
__device__ void copy_items(const BackwardArguments<S>& args, const BackwardBlock& block) {
#pragma unroll 1
  for (int n = 0; n < args.time; ++n) {
    const auto from = [&](Published kind, int tiles) {
      return published(args, kind, n) + block.slice * tiles * kTileBytes;
    };
    copy_tiles<kAskedTiles>(
        block, from(Published::kAsked, kAskedTiles), first_tile(Published::kAsked, n),
        static_cast<int>(Published::kAsked),
        counter_of(args, Published::kAsked, block.slice * kCluster / kSlices * kWatched),
        static_cast<std::uint32_t>((n + 1) * (kClusters / kWatched)), true);
    for (const Published kind : {Published::kUpperGates, Published::kLowerGates}) {
      copy_tiles<kGateTiles>(block, from(kind, kGateTiles), first_tile(kind, n),
                             static_cast<int>(kind),
                             counter_of(args, kind, block.slice * kGateTiles),
                             static_cast<std::uint32_t>((n + 1) * kCluster), false);
    }
  }
}

/// Loads `tiles` [64, 64] tiles of weights, lines of the depth, to shared memory: eight columns of
/// a tile's line from at(tile, line, column) on, zeros where that is null. By the threads of a
/// role.
template <typename S, typename At>
__device__ void load_tiles(std::byte* to, int tiles, const At& at) {
#pragma unroll 8
  for (int i = thread_of_role(); i < tiles * 512; i += 128) {
    const int piece = i % 8, line = i / 8 % 64, tile = i / 512;
    const S* from = at(tile, line, piece * 8);
    uint4 bits = {0, 0, 0, 0};
    if (from != nullptr) bits = __ldg(reinterpret_cast<const uint4*>(from));
    *reinterpret_cast<uint4*>(to + tile * kTileBytes + line * 128 + (piece ^ line % 8) * 16) = bits;
  }
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
