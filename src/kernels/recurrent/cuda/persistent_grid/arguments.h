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
/// Units whose values travel together, 16 bytes a row.
inline constexpr int kOctet = 8;
/// Of the exchange between blocks, which take turns (exchange.h).
inline constexpr int kBuffers = 4;

constexpr int octets_of(std::int64_t hidden) {
  return static_cast<int>((hidden + kOctet - 1) / kOctet);
}

/// What a launch is told beside the layer.
struct Grid {
  Spread spread;       ///< of rows over groups
  int blocks;          ///< of a group
  int loads;           ///< that a warp's share of the depth takes, 4 octets each
  std::byte* buffers;  ///< of the exchange, all bits set
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
