#pragma once

#include <array>
#include <string_view>

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

/// How one pass lies on a block: `cluster` blocks share the depth of their units' product.
struct PassForm {
  int units, cluster;
};
/// How layers of up to so many units lie on the GPU, in groups of up to so many tiles.
struct Form {
  std::string_view name;
  PassForm forward, backward;
  int most_hidden, most_tiles;

  /// Depth that a warp takes, in loads of 32.
  constexpr int forward_loads() const { return loads(most_hidden, forward); }
  constexpr int backward_loads(int gates) const { return loads(gates * most_hidden, backward); }
  /// Sixteens of rows of a block's matrix.
  constexpr int forward_bands(int gates) const { return (gates * forward.units + 15) / 16; }
  constexpr int backward_bands() const { return (backward.cluster * backward.units + 15) / 16; }

 private:
  static constexpr int loads(int depth, const PassForm& pass) {
    return (depth + 256 * pass.cluster - 1) / (256 * pass.cluster);
  }
};
/// In the order in which they are tried: the fewer units a block has, the less it has to multiply.
inline constexpr std::array kForms{Form{"narrow", {8, 1}, {10, 4}, 1024, 1},
                                   Form{"wide", {16, 1}, {18, 4}, 1024, 2},
                                   Form{"deep", {12, 1}, {14, 4}, 1536, 2}};

/// Those of a cell and storage (bfloat16 or float16), by number of tiles.
const TileKernels& kernels_of(const CellKind& kind, const Form& form);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
