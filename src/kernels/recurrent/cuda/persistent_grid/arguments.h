#pragma once

#include <cstddef>

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// One pass of a layer over all blocks of the GPU in one launch.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

using persistent::Extent;
using persistent::kThreads;
using persistent::LayerBackward;
using persistent::LayerForward;
using persistent::Spread;

inline constexpr int kWarps = kThreads / 32;
/// Units whose values travel together.
inline constexpr int kOctet = 8;
/// Rows of weights that a product takes together: a band of them and 32 of the depth are 1 KB.
constexpr int band_rows(std::size_t value_bytes) { return value_bytes == 4 ? 8 : 16; }
/// Rows of a group at most: those that a product of fragments takes.
inline constexpr int kGroupRows = 8;
/// Steps from a fence of the exchange to the next, and its buffers, which take turns (exchange.h).
inline constexpr int kFenceSteps = 8, kBuffers = 2 * kFenceSteps + 1;

constexpr int octets_of(std::int64_t hidden) {
  return static_cast<int>((hidden + kOctet - 1) / kOctet);
}

/// A buffer of the exchange: values of 8 units of a row lie together, [octet][row][8], just as
/// threads multiply them. Four octets, which a warp reads at once, are some way from the next
/// four: otherwise those of a single row lie in so few places of the cache that readers wait for
/// each other.
template <int kValueBytes>
struct BufferLayout {
  int rows, octets;

  static constexpr int kOctetBytes = kOctet * kValueBytes;  ///< of a row
  static constexpr int kPitch = 4 * kGroupRows * kOctetBytes;
  __host__ __device__ constexpr int bytes() const { return (octets + 3) / 4 * kPitch; }
  __host__ __device__ constexpr int offset(int octet, int row) const {
    return octet / 4 * kPitch + (octet % 4 * rows + row) * kOctetBytes;
  }
};

/// What a launch is told beside the layer.
struct Grid {
  Spread spread;       ///< of rows over groups
  int blocks;          ///< of a group
  int loads;           ///< that a warp's share of the depth takes, 4 octets each
  std::byte* buffers;  ///< of the exchange, all bits set: kBuffers a group
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
