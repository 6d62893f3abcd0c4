#pragma once

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// Bytes in shared memory of a thread that evaluates cells: for each tile a state and the values
/// that wait to be published, for each step that is read ahead its inputs.
struct CellBytes {
  int state, inputs, waiting;
};
/// By the bytes of an element in storage.
constexpr CellBytes forward_bytes(int element) { return {8 + 2 * element, 32, 0}; }
/// Gradients of TF32 wait for their scale, and a cell's new state is made of what was saved.
constexpr CellBytes backward_bytes(int element) {
  return element == 4 ? CellBytes{16, 48, 32} : CellBytes{16, 16 + 10 * element, 0};
}

/// Barriers of a block, and one more of each tile.
inline constexpr int kBarriers = 2 * kMostRing + 5 + 2 * kMostAhead;

/// Shared memory of a block, in bytes. Products read 32 lines of each chunk: behind a shorter last
/// one of the ring whatever lies there, for columns of the sums that nobody looks at.
struct BlockMemory {
  static constexpr int kPartsBytes = 16384;  ///< of sums of a tile on their way to cells
  static constexpr int kStepBytes = 2048;    ///< of a warpgroup's weights of a step of depth
  int weights, last_steps, parts, states, waiting, inputs, counts, lengths, scales, barriers, bytes;

  constexpr BlockMemory(const Geometry& geometry, CellBytes cells)
      : weights(geometry.ring * geometry.stage_bytes()),
        last_steps(weights + geometry.shared_stages() * kStageWeightBytes),
        parts(last_steps + 2 * wide::last_steps(geometry.stages) * kStepBytes),
        states(parts + geometry.sums * kPartsBytes),
        waiting(states + geometry.tiles_each * cells.state * kCellThreads),
        inputs(waiting + geometry.tiles_each * cells.waiting * kCellThreads),
        counts(inputs + geometry.ahead * cells.inputs * kCellThreads),
        lengths(counts + geometry.tiles_each * 3 * 4),
        scales(lengths + geometry.tiles_each * kTileRows * 4),
        barriers((scales + geometry.tiles_each * kTileRows * 4 + 7) / 8 * 8),
        bytes(barriers + (kBarriers + geometry.tiles_each) * 8) {}
};

}  // namespace sluice::kernels::recurrent::cuda::wide
