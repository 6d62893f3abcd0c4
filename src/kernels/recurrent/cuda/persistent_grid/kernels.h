#pragma once

#include <array>

#include "kernels/recurrent/cuda/cell_kernels.h"

/// The kernels that are compiled, a source file each cell, storage and form (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// Tiles of 8 rows that a group can take, from one on.
inline constexpr int kMostTiles = 2;

struct Pass {
  const void* kernel;  ///< of (LayerForward or LayerBackward, Grid)
  int bytes;           ///< of shared memory
};
struct Kernels {
  Pass forward, backward;
};
using TileKernels = std::array<Kernels, kMostTiles>;

/// How many units a block owns, which bounds the layer: registers hold so much of its depth.
struct Form {
  int units;
  int most_hidden;
  int most_tiles;
  constexpr int forward_loads() const { return (most_hidden + 255) / 256; }
  constexpr int backward_loads(int gates) const {
    return (gates * most_hidden + 256 * kCluster - 1) / (256 * kCluster);
  }
  constexpr int forward_bands(int gates) const { return (gates * units + 15) / 16; }
  constexpr int backward_bands() const { return (kCluster * units + 15) / 16; }
  /// Blocks of backward that share the depth.
  static constexpr int kCluster = 2;
};
inline constexpr std::array kForms{Form{8, 1024, 1}, Form{16, 1024, 2}, Form{12, 1536, 2}};

/// Those of a cell and storage (bfloat16 or float16), by number of tiles.
const TileKernels& kernels_of(const CellKind& kind, const Form& form);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
