#pragma once

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// Shared memory of a block, in bytes. Products read 32 lines of each chunk: behind a shorter last
/// one of the ring whatever lies there, for columns of the sums that nobody looks at.
struct BlockMemory {
  static constexpr int kPartsBytes = 16384;  ///< of sums [16 units, 32 rows] of 8 parts
  int weights, parts, states, counts, barriers, bytes;

  /// `state_bytes` of a thread and tile.
  constexpr BlockMemory(const Geometry& geometry, int state_bytes)
      : weights(geometry.ring * geometry.stage_bytes()),
        parts(weights + geometry.shared_stages() * kStageWeightBytes),
        states(parts + geometry.sums * kPartsBytes),
        counts(states + geometry.tiles_each * state_bytes * 128),
        barriers(counts + (geometry.tiles_each * 2 * 4 + 7) / 8 * 8),
        bytes(barriers + (2 * geometry.ring + 5 + geometry.tiles_each) * 8) {}
};

}  // namespace sluice::kernels::recurrent::cuda::wide
