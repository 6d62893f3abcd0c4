#pragma once

#include <cuda.h>

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// All steps of one layer in one launch over the whole GPU, for wide layers and large batches. A
/// block keeps weights of 64 rows of the recurrent product (forward: all gates of 16 units;
/// backward: 64 units, a part of the gates' depth) in registers, and those beyond a depth of 1024
/// in shared memory. Blocks exchange h, or gate gradients, through global memory, in the form in
/// which the tensor cores read it, and publish it by counters.
namespace sluice::kernels::recurrent::cuda::wide {

using persistent::Extent;
using persistent::LayerForward;

struct LayerBackward : persistent::LayerBackward {
  /// Instead of d_input, of an LSTM with one direction in TF32: float16 [time, rows, 4*H], each row
  /// multiplied by a power of two, and what takes that back, [time, rows]; may be null.
  void* d_scaled;
  float* row_scales;
};

/// The arrays that TMA reads for backward's cells: boxes of a block's units and a tile's rows, of
/// arrays [time, rows, ..].
struct BackwardBoxes {
  CUtensorMap saved[2], before[2];  ///< an entry a direction; states [time + 1, ..]: c, of GRUs h
  CUtensorMap dy;                   ///< of all directions, if there is one
};

/// Units whose cells a block evaluates, rows of a tile, and units of a line of the exchange.
inline constexpr int kUnits = 16, kTileRows = 32, kChunkUnits = 64;
inline constexpr int kBlocksOfChunk = kChunkUnits / kUnits;
/// A stage of the ring holds two chunks for each of the two warpgroups that multiply. A chunk has
/// the values of one tile and 64 units (or gates).
inline constexpr int kStageChunks = 4;
/// Stages of the ring that a tile's depth may take; weights of the first ones stay in registers, of
/// the others in shared memory. There are kernels for up to kRegisterStages, and one for more.
inline constexpr int kFewestStages = 2, kRegisterStages = 4, kMostStages = 8;
inline constexpr int kKernels = kRegisterStages + 1 - kFewestStages + 1;
/// Steps of depth 16 that a warpgroup has of a stage, and how many of a tile's are behind those
/// whose weights its registers hold, in shared memory: other warps need registers too, and where
/// whole stages are in shared memory, those need that.
inline constexpr int kStageSteps = 8;
constexpr int last_steps(int stages) {
  if (stages < kRegisterStages) return 0;
  return stages == kRegisterStages ? 5 : 1;
}
/// The most stages of the ring (more gain nothing), and the most steps of tiles whose inputs are
/// read ahead.
inline constexpr int kMostRing = 11, kMostAhead = 3;
/// A block's weights for a stage: 64 rows.
inline constexpr int kStageWeightBytes = 64 * kStageChunks * kChunkUnits * 2;
/// Warpgroups: two multiply and two evaluate cells. In the last one, a warp copies values to
/// multiply, one publishes values, and two read the inputs of cells.
inline constexpr int kThreads = 640, kCellThreads = 256;
/// One L2 line per counter.
inline constexpr int kCounterBytes = 128;
/// Arrivals that publish a chunk's values: one warp of each of its blocks.
inline constexpr int kAnnouncements = kBlocksOfChunk;

/// How a layer is distributed over the GPU.
struct Geometry {
  std::int32_t chunks;        ///< of 64 units, together all units
  std::int32_t depth_chunks;  ///< of the exchange: `chunks`, in backward so many per gate
  std::int32_t tiles;         ///< of 32 rows, in all
  std::int32_t first_tile;    ///< of the launch
  std::int32_t tiles_each;    ///< of a block, one after the other in each step
  std::int32_t groups;        ///< of rows: blocks of different groups exchange nothing
  std::int32_t sharers;       ///< blocks of a cluster that receive each copy
  std::int32_t lines;         ///< of a chunk, 128 bytes each: the rows of a tile in eights
  std::int32_t stages;        ///< of the ring, that a tile's depth takes
  std::int32_t ring;          ///< stages of the ring
  std::int32_t sums;          ///< buffers of sums on their way from products to cells, 1 or 2
  std::int32_t ahead;         ///< steps of tiles whose inputs are read ahead
  bool boxes;                 ///< backward's cells read BackwardBoxes
  bool saved_by_gate;         ///< forward leaves `saved` as [time, rows, 4, H]
  float* largest_h0;          ///< in magnitude, zero if there is none; TF32 alone
  /// TF32's backward: [2][direction][tile][block][place of a row], zero at the beginning
  std::uint16_t* exponents;
  std::byte* exchange;      ///< [2][direction][tile][depth chunk][chunk_bytes()]
  std::uint32_t* counters;  ///< [direction][tile][chunk], zero at the beginning

  constexpr int chunk_bytes() const { return lines * 128; }
  constexpr int stage_bytes() const { return kStageChunks * chunk_bytes(); }
  /// From a tile's values in the exchange to those of the next.
  constexpr int tile_bytes() const { return depth_chunks * chunk_bytes(); }
  /// Stages whose weights are in shared memory.
  constexpr int shared_stages() const {
    return stages > kRegisterStages ? stages - kRegisterStages : 0;
  }
};

}  // namespace sluice::kernels::recurrent::cuda::wide
