#pragma once

#include <cstdint>

namespace sluice::kernels::recurrent::cuda {

/// A place in a ring, and how often it was used.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void next(int ring) {
    if (++stage < ring) return;
    stage = 0;
    parity ^= 1;
  }
  /// By a number that may be more than the ring has.
  __device__ void advance(int stages, int ring) {
    for (stage += stages; stage >= ring; stage -= ring) parity ^= 1;
  }
};

}  // namespace sluice::kernels::recurrent::cuda
