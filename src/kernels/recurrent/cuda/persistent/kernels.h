#pragma once

#include <array>

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// The kernels that are compiled, a source file each cell, arithmetic and size of cluster
/// (instance.cu.in), and with extras each cell and arithmetic (extras_instance.cu.in).
namespace sluice::kernels::recurrent::cuda::persistent {

/// One size of cluster and number of tiles; null where shared memory doesn't suffice.
struct Kernels {
  const void* forward;                ///< of (LayerForward or with extras, Spread)
  const void* backward;               ///< of (LayerBackward or with extras, Spread)
  int forward_bytes, backward_bytes;  ///< of shared memory
};

/// Tiles of 8 rows that a cluster can take at most, from one on.
inline constexpr int kMostTiles = 3;
/// Blocks of a cluster, each with kUnits units.
inline constexpr std::array kClusterSizes{4, 8, 16};

using TileKernels = std::array<Kernels, kMostTiles>;
using SizeKernels = std::array<TileKernels, kClusterSizes.size()>;

/// Those of a cell and its arithmetic, by number of tiles.
const TileKernels& kernels_of(const CellKind& kind, bool extras, int blocks);

}  // namespace sluice::kernels::recurrent::cuda::persistent
