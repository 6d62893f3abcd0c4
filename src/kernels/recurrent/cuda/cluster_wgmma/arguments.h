#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// All steps of one layer in one launch, for many rows of up to 384 units in 16 bits or TF32, whose
/// factors are scaled float16 (persistent/arithmetic.h). A cluster of eight blocks has some of the
/// rows; a block has an eighth of the units, whose weights its threads
/// hold in registers as the first factor of wgmma, and in shared memory h of all units, to which
/// the blocks of the cluster send each other their parts. Rows go in tiles that take turns: while
/// one is multiplied, h of the others is on its way.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

using persistent::Extent;
using persistent::LayerForward;

inline constexpr int kBlocks = 8;  ///< of a cluster
/// Units of which a warpgroup has all four gates, and so 64 rows of the product; warpgroups of a
/// block that multiply and evaluate cells.
inline constexpr int kGroupUnits = 16, kFewestGroups = 2, kMostGroups = 3;
inline constexpr int kMostUnits = kBlocks * kMostGroups * kGroupUnits;
/// Rows of a tile, with padding: of two forms of a product the compiler makes no copies of weights.
inline constexpr int kEight = 8, kFewestTileRows = 16, kMostTileRows = 24;
/// Tiles that a cluster may have, and steps of tiles whose inputs are read ahead.
inline constexpr int kMostTiles = 4, kMostAhead = 8;

/// Warpgroups that so many units take.
constexpr int groups_for(std::int64_t hidden) {
  constexpr std::int64_t kUnitsOfGroup = std::int64_t{kBlocks} * kGroupUnits;
  const int groups = static_cast<int>((hidden + kUnitsOfGroup - 1) / kUnitsOfGroup);
  return groups < kFewestGroups ? kFewestGroups : groups;
}
/// Threads of a block: its warpgroups of units, and one whose warps bring, send and write.
constexpr int threads_of(int groups) { return 128 * (groups + 1); }

/// How rows lie on clusters.
struct Geometry {
  std::int32_t clusters;  ///< of a direction
  std::int32_t rows;      ///< of a cluster, at most
  std::int32_t tiles;     ///< that those are divided into
  std::int32_t eights;    ///< rows of the last tile, in eights
  std::int32_t longer;    ///< tiles, the first ones, that have eight rows more than the last
  std::int32_t ahead;     ///< steps of tiles whose inputs are read ahead

  /// Rows of a tile with padding, and those of the tiles before it.
  __host__ __device__ constexpr int columns(int tile) const {
    return kEight * (eights + (tile < longer ? 1 : 0));
  }
  __host__ __device__ constexpr int first_column(int tile) const {
    return kEight * (tile * eights + (tile < longer ? tile : longer));
  }
  __host__ __device__ constexpr int all_columns() const { return first_column(tiles); }
};

/// Rows of a cluster in so many tiles.
constexpr Geometry in_tiles(int clusters, int rows, int tiles) {
  const int fewest = tiles * kFewestTileRows / kEight, eights = (rows + kEight - 1) / kEight;
  const int all = eights < fewest ? fewest : eights;
  return {clusters, rows, tiles, all / tiles, all % tiles, 0};
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
