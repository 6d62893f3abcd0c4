#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Shared memory of a block that has so many warpgroups of units, in bytes.
template <int kGroups>
struct BlockMemory {
  static constexpr int kUnits = kGroups * kGroupUnits;  ///< of the block
  static constexpr int kDepth = kBlocks * kUnits;       ///< of the product
  /// h of all units for a row. A tile's is [parity][eight units][row][unit]: pieces of 16 bytes,
  /// those of eight rows a core matrix of wgmma without swizzle. What a warpgroup adds is next to
  /// each other.
  static constexpr int kStateBytes = kDepth * 2;
  /// From one row's c, [parity][row][unit], to the next; from one gate's inputs to the next, and
  /// from one row's, [row][gate][unit]: so that no two lanes of a warp take the same bank.
  static constexpr int kCellStride = kUnits + 4;
  static constexpr int kGateStride = kUnits + 4, kInputStride = 4 * kGateStride + 4;

  int cells, inputs, lengths, steps, barriers, bytes;

  __host__ __device__ constexpr explicit BlockMemory(const Geometry& geometry)
      : cells(2 * geometry.all_columns() * kStateBytes),
        inputs(cells + 2 * geometry.all_columns() * kCellStride * 4),
        lengths(inputs + geometry.ahead * input_bytes(geometry)),
        steps(lengths + geometry.all_columns() * 4),
        barriers(steps + kMostTiles * 4),
        bytes(barriers + (4 * kMostTiles + 2 * kMostAhead) * 8) {}

  /// A tile's inputs.
  __host__ __device__ static constexpr int input_bytes(const Geometry& geometry) {
    return geometry.columns(0) * kInputStride * 4;
  }
};

/// Addresses of a block's barriers.
struct Barriers {
  std::uint32_t base;

  /// h of a tile has come from all blocks.
  __device__ std::uint32_t state_full(int tile, int parity) const {
    return base + (2 * tile + parity) * 8;
  }
  /// What the block itself added to it has been written to global memory.
  __device__ std::uint32_t state_written(int tile, int parity) const {
    return base + (2 * kMostTiles + 2 * tile + parity) * 8;
  }
  /// Inputs that are read ahead.
  __device__ std::uint32_t inputs_full(int slot) const {
    return base + (4 * kMostTiles + slot) * 8;
  }
  __device__ std::uint32_t inputs_empty(int slot) const {
    return base + (4 * kMostTiles + kMostAhead + slot) * 8;
  }
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
