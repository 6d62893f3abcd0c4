#pragma once

#include <bit>

#include "kernels/recurrent/cuda/projected/arguments.h"

namespace sluice::kernels::recurrent::cuda::projected {

/// Groups of depths whose weights of the gates stay in registers, if a layer has as many.
constexpr int groups_in_registers(int octets) {
  return octets == 1 ? 14 : octets == 2 ? 13 : octets == 4 ? 11 : 4;
}

/// How many warpgroups have a part of the projection's depth: with most rows one has all of it, for
/// values come no faster than that and sums of each part take memory.
constexpr int projection_parts(int octets) { return octets < kMostOctets ? kGroups : 1; }
/// Pieces of units that are copied together, of which all parts have as many: a power of two.
constexpr int unit_chunk_pieces(int octets) {
  const int parts = projection_parts(octets);
  const auto each = static_cast<unsigned>(chunk_pieces(octets) / parts);
  return parts * static_cast<int>(std::bit_floor(each));
}

/// Where things lie in a block's shared memory, as byte offsets.
struct BlockMemory {
  int gates, projection, weights, values, sums, barriers, bytes;

  constexpr BlockMemory(int resident, int own_pieces, int octets, int ring, int weight_ring)
      : gates(0),
        projection(resident * group_bytes(octets)),
        weights(projection + own_pieces * kProjectionBytes),
        values(weights + weight_ring * group_bytes(octets)),
        sums(values + ring * kChunkBytes),
        barriers(sums + sums_bytes(octets)),
        bytes(barriers + (2 * ring + 2 * weight_ring + 3) * 8) {}

  /// Of the features of a block: what each part of the depth comes to.
  static constexpr int sums_bytes(int octets) {
    return kCluster * projection_parts(octets) * octets * 512;
  }
};

}  // namespace sluice::kernels::recurrent::cuda::projected
