#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Shared memory of a block that has so many warpgroups of units, in bytes. `kScaled`: h is kept as
/// it is, too.
template <int kGroups, int kGates, bool kScaled>
struct BlockMemory {
  static constexpr int kUnits = kGroups * kGroupUnits;  ///< of the block
  static constexpr int kDepth = kBlocks * kUnits;       ///< of the product
  /// Inputs of eight rows, as a copy of a box leaves them: [warpgroup][gate][row][unit], lines of
  /// 64 bytes whose pieces of 16 are swapped by the row, so that lanes find them in different
  /// banks.
  static constexpr int kInputBytes = kGroups * kGates * kEight * kGroupUnits * 4;
  /// h of all units for a row. A tile's is [parity][eight units][row][unit]: pieces of 16 bytes,
  /// those of eight rows a core matrix of wgmma without swizzle. What a block adds is next to each
  /// other.
  static constexpr int kStateBytes = kDepth * 2;
  /// From one row's c, [parity][row][unit], to the next, so that no two lanes of a warp take the
  /// same bank. h that isn't scaled lies likewise.
  static constexpr int kCellStride = kUnits + 4;

  int states, cells, plain, lengths, steps, largest, barriers, bytes;

  __host__ __device__ constexpr explicit BlockMemory(const Geometry& geometry)
      : states(geometry.ahead * slot_bytes(geometry)),
        cells(states + 2 * geometry.all_columns() * kStateBytes),
        plain(cells + 2 * geometry.all_columns() * kCellStride * 4),
        lengths(plain + (kScaled ? plain - cells : 0)),
        steps(lengths + geometry.all_columns() * 4),
        largest(steps + kMostTiles * 4),
        barriers(largest + 8),
        bytes(barriers + (5 * kMostTiles + kMostAhead) * 8) {}

  /// Of a tile's inputs.
  __host__ __device__ static constexpr int slot_bytes(const Geometry& geometry) {
    return geometry.columns(0) / kEight * kInputBytes;
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
  /// What the block adds to h of a tile is in its own shared memory.
  __device__ std::uint32_t made(int tile) const { return base + (4 * kMostTiles + tile) * 8; }
  /// Inputs that are read ahead.
  __device__ std::uint32_t inputs_full(int slot) const {
    return base + (5 * kMostTiles + slot) * 8;
  }
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
