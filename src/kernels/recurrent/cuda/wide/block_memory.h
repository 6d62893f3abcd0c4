#pragma once

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda::wide {

/// Shared memory of a block, in bytes.
struct BlockMemory {
  static constexpr int kPartsBytes = 16384;  ///< of sums [16 units, 32 rows] of 8 parts
  int parts, states, counts, barriers, bytes;

  constexpr BlockMemory(int ring, int tiles, int state_bytes)
      : parts(ring * kStageBytes),
        states(parts + 2 * kPartsBytes),
        counts(states + tiles * state_bytes * 128),
        barriers(counts + (tiles * 2 * 4 + 7) / 8 * 8),
        bytes(barriers + (2 * ring + 4 + tiles) * 8) {}
};

}  // namespace sluice::kernels::recurrent::cuda::wide
