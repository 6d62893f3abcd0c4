#pragma once

#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent_grid/arguments.h"

/// How a layer lies on the whole GPU. A group of blocks holds all weights and works on some rows; a
/// block owns kUnits units, their state and what computes it, and its eight warps share the depth.
/// A thread owns one unit of one row in eight, as in persistent/, or nothing.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

using persistent::Owner;
using persistent::Share;

/// What a thread owns of its block's units and its group's rows.
template <int kUnits, int kTiles>
struct Place {
  static constexpr int kBlockUnits = kUnits;
  static constexpr int kOctets = (kUnits + kOctet - 1) / kOctet;
  static constexpr int kTileWarps = 2 * kOctets;
  /// Tiles of 8 rows in which a thread owns a row.
  static constexpr int kOwned =
      kTiles * kTileWarps <= kWarps ? 1 : (kTiles * kTileWarps + kWarps - 1) / kWarps;
  static constexpr int kOwners = kTiles * kTileWarps / kOwned;  ///< warps
  static_assert(kUnits % 2 == 0 && kOwners * kOwned == kTiles * kTileWarps);

  Owner owner;     ///< its unit that of the layer; beyond the layer if there is none
  int unit;        ///< of the block
  int tile, half;  ///< the first row's tile, and which four of its rows the warp has
  bool owns_warp;  ///< whether the warp has any
  bool sends;      ///< whether others wait for the unit
  bool first;      ///< of the pair of units that travels as a word

  __device__ Place(int rank, int hidden) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = owner.lane;
    owner.octet = warp % kOctets;
    unit = owner.octet * kOctet + lane / 4;
    tile = warp / kTileWarps * kOwned;
    half = warp / kOctets % 2;
    owns_warp = warp < kOwners;
    owner.half = tile * 2 + half;
    owner.row = owner.half * 4 + lane % 4;
    owner.unit = owns_warp && unit < kUnits ? rank * kUnits + unit : hidden;
    // Units beyond the layer are sent, as zeros, where they share an octet with others.
    sends = owns_warp && unit < kUnits && rank * kUnits + unit < octets_of(hidden) * kOctet;
    first = unit % 2 == 0;
  }
};

/// Sums of one step in shared memory, a set a warp: [warp][tile][four rows][kRows][row]. Fours are
/// padded, so that a warp writes two of them into different banks.
template <int kRows, int kTiles>
struct SumBuffer {
  static constexpr int kHalf = kRows * 4 + 16;
  static constexpr int kTile = 2 * kHalf;
  static constexpr int kWarp = kTiles * kTile;
  static constexpr int kFloats = kWarps * kWarp;
  static constexpr int kBytes = kFloats * 4;

  /// The sum over all warps, `from` being the first one's.
  __device__ static float total(const float* from) {
    float part[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) part[w] = from[w * kWarp];
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
  }
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
