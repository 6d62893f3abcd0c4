#pragma once

#include <array>

#include "kernels/recurrent/cuda/persistent/arguments.h"

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and arithmetic (instance.cu.in,
/// rnn_instance.cu.in), and once more with extras or layer norm (extras_instance.cu.in,
/// norm_instance.cu.in).
namespace sluice::kernels::recurrent::cuda::persistent {

/// One cluster and number of tiles; null where there is none, or shared memory doesn't suffice.
struct Kernels {
  const void* forward;                ///< of (LayerForward or what adds to it, Spread)
  const void* backward;               ///< of (LayerBackward or what adds to it, Spread)
  int forward_bytes, backward_bytes;  ///< of shared memory
};

/// What cells have beside their equations.
enum class Form { kPlain, kExtras, kNorm };

/// Tiles of 8 rows that a cluster can take at most, from one on.
inline constexpr int kMostTiles = 3;
/// Clusters of kUnits units a block.
inline constexpr std::array kClusters{Cluster{4, kUnits}, Cluster{8, kUnits}, Cluster{16, kUnits}};
/// Half as many blocks as the largest of them: of forward in 16 bits, multiples of four units and
/// one tile alone.
inline constexpr Cluster kHalved{8, 2 * kUnits};

/// Those of plain RNNs have four times as many units a block, and as many blocks as a layer needs:
/// a power of two. Kernels are compiled for up to the first, and but in float32 for the second.
inline constexpr int kRnnUnits = 4 * kUnits;
inline constexpr std::array kRnnClusters{Cluster{4, kRnnUnits}, Cluster{8, kRnnUnits}};

using TileKernels = std::array<Kernels, kMostTiles>;
/// Of kClusters.
using SizeKernels = std::array<TileKernels, kClusters.size()>;
/// Of kClusters and kHalved.
using PlainKernels = std::array<TileKernels, kClusters.size() + 1>;
/// Of kRnnClusters.
using RnnKernels = std::array<TileKernels, kRnnClusters.size()>;

/// Those of a cell and its arithmetic, by number of tiles. Layer norm is the LSTM's, in 16 bits;
/// plain RNNs have the plain form alone.
const TileKernels& kernels_of(const CellKind& kind, Form form, const Cluster& cluster);

}  // namespace sluice::kernels::recurrent::cuda::persistent
