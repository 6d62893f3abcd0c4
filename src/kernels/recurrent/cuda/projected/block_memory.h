#pragma once

#include "kernels/recurrent/cuda/projected/arguments.h"

namespace sluice::kernels::recurrent::cuda::projected {

/// Depths of 32 whose weights of the gates stay in registers.
constexpr int depths_in_registers(int octets) {
  return octets == 1 ? 13 : octets == 2 ? 12 : octets == 4 ? 9 : 4;
}

/// Where things lie in a block's shared memory, as byte offsets.
struct BlockMemory {
  int gates, projection, weights, values, exchange, barriers, bytes;

  constexpr BlockMemory(int resident, int unit_pieces, int octets, int ring)
      : gates(0),
        projection(resident * kGatesBytes),
        weights(projection + unit_pieces * 512),
        values(weights + kWeightRing * kGatesBytes),
        exchange(values + ring * kChunkBytes),
        barriers(exchange + exchange_bytes(octets)),
        bytes(barriers + (2 * ring + 2 * kWeightRing + 1) * 8) {}

  /// Sums of half of the octets on their way from one part of the depth to the other.
  static constexpr int exchange_bytes(int octets) {
    return kUnitWarps * ((octets + 1) / 2) * 2 * 512;
  }
};

}  // namespace sluice::kernels::recurrent::cuda::projected
