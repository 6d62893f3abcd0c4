#pragma once

#include <cuda.h>

/// One step of a layer with many rows as one kernel on Hopper: the product of the input and the
/// recurrent one are one product over the depth of both, and the cell is its epilogue. A block has
/// a tile of rows and units with all their gates. Two warpgroups multiply 64 rows each, and one
/// warp more asks for copies. Two blocks with the same units are a cluster: each asks for half of
/// the weights for both.
namespace sluice::kernels::recurrent::cuda::joined_step {

inline constexpr int kRows = 128, kUnits = 32;  ///< of a tile
inline constexpr int kSharers = 2;              ///< blocks of a cluster, along the rows
inline constexpr int kWarpThreads = 32;
inline constexpr int kGroupThreads = 128, kGroups = 2, kGroupRows = kRows / kGroups;
inline constexpr int kMultipliers = kGroups * kGroupThreads, kThreads = kMultipliers + kWarpThreads;
/// So that a block of the next layer's kernel is there early.
inline constexpr int kBlocksOfProcessor = 2;

/// The factors of the recurrent product, then of the input's: left [rows, depth], right [gates,
/// units, depth]. A box is 128 bytes of depth of a tile's rows, or of the units of one gate that a
/// block asks for.
struct Factors {
  CUtensorMap left[2], right[2];
  int chunks[2];  ///< of 128 bytes of depth
};

}  // namespace sluice::kernels::recurrent::cuda::joined_step
