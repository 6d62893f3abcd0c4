#pragma once

#include "kernels/recurrent/cuda/persistent/arithmetic.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// How recurrent weights of TF32 are scaled, from the largest. Inputs are scaled alike, as sums
/// begin with them, and must not overflow: weights that are all smaller than 2^-40 move no gate by
/// as much as float32 tells.
__device__ inline persistent::Scale scale_of_weights(const float* largest) {
  constexpr float kLeast = 0x1p-40f;
  return persistent::Scale(fmaxf(kLeast, *largest));
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
