#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/load_order.h"
#include "kernels/recurrent/cuda/ring_place.h"
#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/wide/block_memory.h"

/// The work of a block, its order, and the layout of its shared memory.
namespace sluice::kernels::recurrent::cuda::wide {

/// Which part of a layer a block has. Blocks of a direction and group stand next to each other, 16
/// units after another.
struct Part {
  int direction, chunk, quarter;  ///< its units are the quarter of the chunk
  int first_tile, tiles;

  __device__ explicit Part(const Geometry& geometry) {
    const int across = geometry.chunks * kBlocksOfChunk;
    // Not blockIdx, so that each role finds its part by itself: what all roles had in common would
    // lie in registers of all of them.
    int block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    const int rest = block / across;
    direction = rest / geometry.groups;
    chunk = block % across / kBlocksOfChunk;
    quarter = block % kBlocksOfChunk;
    first_tile = geometry.first_tile + rest % geometry.groups * geometry.tiles_each;
    tiles = min(geometry.tiles_each, geometry.tiles - first_tile);
  }

  /// Of the direction and group.
  __device__ int block() const { return chunk * kBlocksOfChunk + quarter; }
};

/// A product with the `number`-th values that were published for one of the block's tiles.
struct Item {
  int number, tile;
};

/// The block's items, in the order in which all its warps take them: tiles take turns, so that one
/// is multiplied while another's values are on their way.
class Items {
 public:
  /// `counts` of the block's tiles.
  __device__ Items(const int* counts, int tiles) : counts_(counts), tiles_(tiles), most_(0) {
    for (int i = 0; i < tiles; ++i) most_ = max(most_, counts[i]);
  }
  /// How many there are.
  __device__ int total() const {
    int sum = 0;
    for (int i = 0; i < tiles_; ++i) sum += counts_[i];
    return sum;
  }
  __device__ Item first() const { return after({0, -1}); }
  __device__ bool has(const Item& item) const { return item.number < most_; }
  __device__ Item after(Item item) const {
    do {
      if (++item.tile == tiles_) {
        item.tile = 0;
        ++item.number;
      }
    } while (item.number < most_ && item.number >= counts_[item.tile]);
    return item;
  }
  __device__ int count(int tile) const { return counts_[tile]; }

 private:
  const int* counts_;
  int tiles_, most_;
};

/// Writes the steps of each row of the block's tiles (none of one that isn't there), and the most
/// that a row of each tile has; called by a warp.
__device__ inline void count_steps(const Extent& extent, const Part& part, int* lengths,
                                   int* steps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int tile = 0; tile < part.tiles; ++tile) {
    const int row = (part.first_tile + tile) * kTileRows + lane;
    int length = 0;
    if (row < extent.rows) {
      length = extent.time;
      if (extent.lengths) length = max(0, min(length, extent.lengths[row] - extent.begin));
    }
    lengths[tile * kTileRows + lane] = length;
    const int most = __reduce_max_sync(~0u, length);
    if (lane == 0) steps[tile] = most;
  }
}

/// Buffers of sums on their way from products to cells, and how often each was used.
struct Turn {
  int buffers;
  int buffer = 0;
  std::uint32_t parity = 0;
  __device__ void next() {
    if (++buffer < buffers) return;
    buffer = 0;
    parity ^= 1;
  }
};

/// Addresses of the block's barriers.
struct Barriers {
  std::uint32_t base;

  __device__ std::uint32_t full(int stage) const { return base + stage * 8; }
  __device__ std::uint32_t empty(int stage) const { return base + (kMostRing + stage) * 8; }
  __device__ std::uint32_t parts_full(int buffer) const { return base + (kParts + buffer) * 8; }
  __device__ std::uint32_t parts_empty(int buffer) const {
    return base + (kParts + 2 + buffer) * 8;
  }
  /// Of the weights in shared memory.
  __device__ std::uint32_t weights() const { return base + (kParts + 4) * 8; }
  /// Of inputs that are read ahead.
  __device__ std::uint32_t inputs_full(int slot) const { return base + (kInputs + slot) * 8; }
  __device__ std::uint32_t inputs_empty(int slot) const {
    return base + (kInputs + kMostAhead + slot) * 8;
  }
  /// For a tile's values that are ready to be published.
  __device__ std::uint32_t written(int tile) const { return base + (kBarriers + tile) * 8; }

 private:
  static constexpr int kParts = 2 * kMostRing, kInputs = kParts + 5;
  static_assert(kBarriers == kInputs + 2 * kMostAhead);
};

/// Blocks of the cluster that share copies: every `stride`-th from `first` on.
struct Sharers {
  int count, first, stride, mine;

  __device__ int rank(int i) const { return first + i * stride; }
  __device__ std::uint16_t mask() const {
    std::uint32_t bits = 0;
    for (int i = 0; i < count; ++i) bits |= 1u << rank(i);
    return static_cast<std::uint16_t>(bits);
  }
};

}  // namespace sluice::kernels::recurrent::cuda::wide
