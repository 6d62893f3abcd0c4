#pragma once

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// All steps of one layer in one launch over the whole GPU, for wide layers and large batches. A
/// block keeps weights of 64 rows of the recurrent product (forward: all gates of 16 units;
/// backward: 64 units, a part of the gates' depth) in registers. What steps hand on, h or gate
/// gradients, goes through global memory, in the form in which the tensor cores read it, and is
/// announced by counters.
namespace sluice::kernels::recurrent::cuda::wide {

using persistent::Extent;
using persistent::LayerBackward;
using persistent::LayerForward;

/// Units whose cells a block evaluates, rows that it does at once, and units whose values a line of
/// the exchange has.
inline constexpr int kUnits = 16, kTileRows = 32, kChunkUnits = 64;
inline constexpr int kBlocksOfChunk = kChunkUnits / kUnits;
/// Values of one tile and 64 units (or gates): a line of 128 bytes a row.
inline constexpr int kChunkBytes = kTileRows * 128;
/// A stage of the ring holds two chunks for each of the two warpgroups that multiply.
inline constexpr int kStageChunks = 4, kStageBytes = kStageChunks * kChunkBytes;
/// Warpgroups: two multiply, one evaluates cells, of the last one a warp copies and one announces.
inline constexpr int kThreads = 512;
/// Counters have a line of the second cache each.
inline constexpr int kCounterBytes = 128;
/// What announces that all of a chunk's values are there: a warp of each of its blocks.
inline constexpr int kAnnouncements = kBlocksOfChunk;

/// How a layer lies on the GPU.
struct Geometry {
  std::int32_t chunks;        ///< 64 units each, that have all units
  std::int32_t depth_chunks;  ///< that the exchange has: `chunks`, or of each gate as many
  std::int32_t tiles;         ///< of 32 rows, in all
  std::int32_t tiles_each;    ///< that a block has, one after the other in each step
  std::int32_t groups;        ///< of rows: blocks of different groups have nothing in common
  std::int32_t sharers;       ///< blocks of a cluster that each copy is brought to
  std::int32_t ring;          ///< stages of the ring
  std::byte* exchange;        ///< [2][direction][tile][depth chunk][kChunkBytes]
  std::uint32_t* counters;    ///< [direction][tile][chunk], zero at the beginning
};

}  // namespace sluice::kernels::recurrent::cuda::wide
