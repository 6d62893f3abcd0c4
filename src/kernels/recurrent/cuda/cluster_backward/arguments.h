#pragma once

#include <cuda.h>

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// Backward of all steps of a layer in one launch, for many rows of up to 512 units in 16 bits or
/// in TF32, whose gate gradients are scaled float16 (row_bounds.h). A cluster has some of the rows,
/// each of its blocks some of the units. A block evaluates the cells of its units and keeps their
/// gate gradients in shared memory. It multiplies them by its weights for the units of all blocks,
/// and sends each block its part of dh. Weights are the first factor of wgmma, in registers and in
/// shared memory.
namespace sluice::kernels::recurrent::cuda::cluster_backward {

using persistent::Extent;
using persistent::LayerBackward;

/// Rows of a cluster: 30 clusters of four then hold 540. Products have the next multiple of eight.
inline constexpr int kRows = 18, kColumns = 24;
/// Units whose gate gradients are passed to the products at a time, and units of a product's warp.
inline constexpr int kChunkUnits = 32, kSliceUnits = 16;
/// Chunks whose sums may be on their way to a block.
inline constexpr int kPartSlots = 2;
/// Warps: two warpgroups multiply, eight warps evaluate cells and one those of the last two rows,
/// one issues copies and two sum gate gradients.
inline constexpr int kProductWarps = 8, kMainCellWarps = 8, kCellWarps = kMainCellWarps + 1;
inline constexpr int kCopyWarp = kProductWarps + kCellWarps, kSumWarps = 2;
inline constexpr int kThreads = 32 * (kCopyWarp + 1 + kSumWarps);
static_assert(kThreads % 128 == 0, "registers are given to whole warpgroups");

/// How a layer is distributed over a cluster: kBlocks blocks of kChunks chunks of units.
template <int kBlocks_, int kChunks_>
struct ClusterShape {
  static constexpr int kBlocks = kBlocks_, kChunks = kChunks_;
  static constexpr int kUnits = kChunks * kChunkUnits;  ///< of a block
  static constexpr int kHidden = kBlocks * kUnits;      ///< at most
  /// A product's depth are the gates of the block's units, in steps of 16, those of a chunk next to
  /// each other; its 64 rows belong to the units of eight slices, two for each of four blocks or
  /// one for each of eight. Both warpgroups together have a round.
  static constexpr int kChunkSteps = 4 * kChunkUnits / 16, kSteps = kChunks * kChunkSteps;
  static constexpr int kRounds = kHidden / 128;
  static constexpr int kSlicesOfRound = 8 / kBlocks;
  /// Factors [64, 16] that a warpgroup has, in the order in which it multiplies them, and how many
  /// of them its registers hold.
  static constexpr int kFactors = kRounds * kSteps, kLoaded = 32;
  static_assert(kRounds * kSlicesOfRound * kSliceUnits == kUnits);
  /// Those in registers are spread over the others, so that shared memory is read evenly.
  static constexpr int loaded_before(int factor) { return factor * kLoaded / kFactors; }
  static constexpr bool is_loaded(int factor) {
    return loaded_before(factor + 1) > loaded_before(factor);
  }
  static constexpr int chunk_of(int round) { return round * kChunks / kRounds; }
};
using FourBlocks = ClusterShape<4, 3>;   ///< up to 384 units
using EightBlocks = ClusterShape<8, 2>;  ///< up to 512

inline constexpr int kFactorBytes = 64 * 16 * 2;
template <typename Shape>
constexpr int kPieces = Shape::kBlocks * 2 * Shape::kFactors * 128;  ///< of all factors, 16 bytes

/// Stored behind the factors in TF32: the largest sum of magnitudes of a column of the weights.
template <typename Shape>
__device__ float norm_behind(const void* weights) {
  return *reinterpret_cast<const float*>(static_cast<const uint4*>(weights) + kPieces<Shape>);
}

/// The arrays of a direction that TMA reads and writes. Gate gradients of TF32 are float16.
struct Maps {
  CUtensorMap saved;    ///< [time, rows, 4*H]
  CUtensorMap c;        ///< [time + 1, rows, H]
  CUtensorMap dy;       ///< [time, rows, H]
  CUtensorMap d_gates;  ///< [time, rows, 4, H]
};

struct LaunchArgs {
  LayerBackward layer;  ///< in TF32 d_input is scaled row by row
  float* row_scales;    ///< out [time, rows]: factors that undo the scales; TF32 only
  Maps maps[2];
  float* gate_sums[2];    ///< out [kSumWarps * clusters, 4*H]: sums of d_input
  std::int32_t clusters;  ///< of a direction
  std::int32_t rows;      ///< of a cluster
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
