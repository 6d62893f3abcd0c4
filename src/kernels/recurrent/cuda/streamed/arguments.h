#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// All steps of one layer in one launch over the whole GPU, for layers whose recurrent weights
/// don't fit on chip. A block has some of its weights in registers and some in shared memory. It
/// streams the rest in every step, ahead of the values to multiply: from L2 or, if L2 doesn't hold
/// them, from memory. The blocks of a cluster share the depth of their units' products.
namespace sluice::kernels::recurrent::cuda::streamed {

using persistent::Extent;
using persistent::LayerBackward;
using persistent::LayerForward;

/// Blocks of a cluster, which share the depth of products, so that each reads less of the exchange
/// (in backward the gradients of all gates) than of the weights. In forward, if two blocks can't
/// multiply all gates of both, each block multiplies the whole depth. Most weights of such a layer
/// come from memory in each step, and compared with them its values are few.
inline constexpr int kForwardCluster = 2, kBackwardCluster = 4;
/// The most rows of the batch, the units (or gates) of a chunk of the depth, and of a line of it.
inline constexpr int kMostRows = 32, kChunkUnits = 128, kLineUnits = 64;
/// Warpgroups: two multiply, three or four evaluate cells. In the last one, a warp publishes
/// values, one copies values and one copies weights.
inline constexpr int kProductGroups = 2, kProductWarps = 4 * kProductGroups;
constexpr int block_threads(int cell_groups) { return 128 * (kProductGroups + cell_groups + 1); }
/// Of those that evaluate cells; and pairs of units that a warp evaluates, of eight rows, and so a
/// block for each of them.
inline constexpr int kFewCellGroups = 3, kMoreCellGroups = 4, kWarpPairs = 4;
/// Chunks of the depth whose weights are in registers, fewer where sums are beside tiles; a block
/// has no fewer chunks.
constexpr int register_chunks(bool beside) { return beside ? 2 : 3; }
/// A pair of units of one row of the product (of a gate, in forward) is a slot. Those beyond what
/// the two warpgroups' tiles hold are multiplied apart, for forward alone.
inline constexpr int kTileSlots = 32, kBesideSlots = 4;
inline constexpr int kRegisterChunkBytes = kProductGroups * 64 * kChunkUnits * 2;
inline constexpr int kBesideChunkBytes = 2 * kBesideSlots * kChunkUnits * 2;
/// One L2 line per counter.
inline constexpr int kCounterBytes = 128;
/// Places of the rings, of values and of weights, at most.
inline constexpr int kMostRing = 40, kMostWeightRing = 8;

/// How a layer's units and weights are distributed over the GPU. It does not depend on the rows, so
/// every run of a plan can use the packed weights.
struct Spread {
  std::int32_t cell_groups;   ///< warpgroups that evaluate cells
  std::int32_t chunks;        ///< that have all units
  std::int32_t depth_chunks;  ///< that the exchange has: `chunks`, or of each gate as many
  std::int32_t cluster;       ///< blocks that share the depth
  std::int32_t clusters;      ///< that work on the layer
  std::int32_t depth;         ///< chunks that a block multiplies
  std::int32_t pairs;         ///< of units that a block owns
  std::int32_t slots;         ///< that a block owns: of each pair one, or one a gate

  constexpr int cell_warps() const { return 4 * cell_groups; }
  constexpr int cell_threads() const { return 128 * cell_groups; }
  constexpr int units() const { return 2 * pairs; }
  constexpr int blocks() const { return cluster * clusters; }
  /// Whether blocks multiply the whole depth, so that sums stay in the block.
  constexpr bool has_whole_depth() const { return cluster == 1; }
  /// Chunks of the depth are those in registers, at even distances, and others.
  constexpr int registers() const { return register_chunks(has_beside()); }
  constexpr int others() const { return depth - registers(); }
  /// How many others come ahead of the i-th chunk in registers.
  constexpr int others_before(int i) const { return (i + 1) * depth / registers() - 1 - i; }
  constexpr bool has_beside() const { return cluster * slots > kProductGroups * kTileSlots; }
  /// Weights of another chunk: lines of 128 bytes, those of 16 rows together.
  constexpr int half_weight_bytes() const {
    const int sixteens = (cluster * slots + 7) / 8, most = kProductGroups * kTileSlots / 8;
    return (sixteens < most ? sixteens : most) * 16 * 128;
  }
  constexpr int weight_bytes() const { return 2 * half_weight_bytes(); }
  /// Bytes of a block's packed weights: [register chunk], [other chunk], [chunk] of what is beside.
  constexpr std::int64_t packed_bytes() const {
    return std::int64_t{registers()} * kRegisterChunkBytes +
           std::int64_t{others()} * weight_bytes() + (has_beside() ? depth * kBesideChunkBytes : 0);
  }
};

/// And how a launch with a number of rows divides each block's memory, and where values are.
struct Geometry : Spread {
  std::int32_t lines;           ///< of half a chunk, 128 bytes each: the rows in eights
  std::int32_t ring;            ///< chunks of values
  std::int32_t streamed;        ///< chunks whose weights come anew in each step, of the others
  std::int32_t weight_ring;     ///< of these
  std::int32_t kept;            ///< of these, kept in L2 by policy; 0: no policy
  std::uint64_t streamed_ones;  ///< which they are, a bit each
  bool saved_by_gate;           ///< forward leaves `saved` as [time, rows, 4, H]
  std::byte* exchange;          ///< [2][depth chunk][half][line][64 units], zero at the beginning
  std::uint32_t* counters;      ///< [chunk], zero at the beginning

  constexpr int half_bytes() const { return lines * 128; }
  constexpr int chunk_bytes() const { return 2 * half_bytes(); }
  /// Whether the i-th of the others is streamed: those are spread evenly.
  constexpr bool is_streamed(int i) const { return streamed_ones >> i & 1; }
  constexpr int resident() const { return others() - streamed; }
  /// Sums for a block of one of the cluster's blocks, and of all.
  constexpr int part_bytes() const { return slots * (lines / 8) * 64; }
  constexpr int sums_bytes() const { return cluster * part_bytes(); }
};

/// Shared memory of a block, in bytes. Products read whole tiles where weights and values have
/// fewer lines: whatever lies behind them, for sums that nobody looks at.
struct BlockMemory {
  static constexpr int kBytes = 232448;  ///< that a block may have on Hopper
  static constexpr int kBarriers = 2 * kMostRing + 2 * kMostWeightRing + 4;
  int weight_ring, beside, ring, sums, end;
  static constexpr int kResident = 0, kBarriersAt = kBytes - kBarriers * 8;

  __host__ __device__ constexpr explicit BlockMemory(const Geometry& geometry)
      : weight_ring(geometry.resident() * geometry.weight_bytes()),
        beside(weight_ring + geometry.weight_ring * geometry.weight_bytes()),
        ring(beside + (geometry.has_beside() ? geometry.depth * kBesideChunkBytes : 0)),
        sums(ring + geometry.ring * geometry.chunk_bytes()),
        end(sums + 2 * geometry.sums_bytes()) {}
  constexpr int left() const { return kBarriersAt - end; }
};

}  // namespace sluice::kernels::recurrent::cuda::streamed
