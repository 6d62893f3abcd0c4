#pragma once

#include "kernels/recurrent/cuda/persistent/extra_arguments.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/shared_vectors.h"

/// What layer norm multiplies and adds in a thread's unit, in shared memory: registers have no room
/// for it.
namespace sluice::kernels::recurrent::cuda::persistent {

class UnitGains {
 public:
  static constexpr int kBytes = 6 * kThreads * 4;

  /// Of `unit`, or zero if it doesn't exist. `Args` is LayerForwardWithNorm or the like.
  template <typename Args>
  __device__ UnitGains(std::uint32_t memory, const Args& args, int direction, int unit, bool exists)
      : memory_(memory + threadIdx.x * 8) {
    const int hidden = args.extent.hidden;
    float values[6] = {};
    if (exists) {
#pragma unroll
      for (int g = 0; g < 4; ++g) values[g] = args.gain_hh[direction][g * hidden + unit];
      values[4] = args.gain_c[direction][unit];
      values[5] = args.shift_c[direction][unit];
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      store_pair(memory_ + i * kThreads * 8, make_float2(values[2 * i], values[2 * i + 1]));
    }
  }

  __device__ void of_products(float (&gains)[4]) const {
    const float2 first = load_pair(memory_), second = load_pair(memory_ + kThreads * 8);
    gains[0] = first.x, gains[1] = first.y, gains[2] = second.x, gains[3] = second.y;
  }
  /// Gain and shift.
  __device__ float2 of_c() const { return load_pair(memory_ + 2 * kThreads * 8); }

 private:
  const std::uint32_t memory_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
