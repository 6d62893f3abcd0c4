#pragma once

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// What a thread that evaluates cells has in shared memory, in bytes: of each tile a state, of each
/// step that is read ahead its inputs.
struct CellBytes {
  int state, inputs;
};
inline constexpr CellBytes kForwardBytes{12, 32}, kBackwardBytes{16, 36};

/// Barriers of a block, and one more of each tile.
inline constexpr int kBarriers = 2 * kMostRing + 5 + 2 * kMostAhead;

/// Shared memory of a block, in bytes. Products read 32 lines of each chunk: behind a shorter last
/// one of the ring whatever lies there, for columns of the sums that nobody looks at.
struct BlockMemory {
  static constexpr int kPartsBytes = 16384;    ///< of sums of a tile on their way to cells
  static constexpr int kLastStepBytes = 2048;  ///< of weights that a warpgroup has there
  int weights, last_steps, parts, states, inputs, counts, lengths, barriers, bytes;

  constexpr BlockMemory(const Geometry& geometry, CellBytes cells)
      : weights(geometry.ring * geometry.stage_bytes()),
        last_steps(weights + geometry.shared_stages() * kStageWeightBytes),
        parts(last_steps + 2 * kLastStepBytes),
        states(parts + geometry.sums * kPartsBytes),
        inputs(states + geometry.tiles_each * cells.state * kCellThreads),
        counts(inputs + geometry.ahead * cells.inputs * kCellThreads),
        lengths(counts + geometry.tiles_each * 3 * 4),
        barriers((lengths + geometry.tiles_each * kTileRows * 4 + 7) / 8 * 8),
        bytes(barriers + (kBarriers + geometry.tiles_each) * 8) {}
};

}  // namespace sluice::kernels::recurrent::cuda::wide
