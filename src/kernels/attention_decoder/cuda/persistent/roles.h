#pragma once

#include "kernels/attention_decoder/cuda/persistent/arguments.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Of a thread of each role; together all that a block begins with, 128 for each of its threads.
inline constexpr int kLayerRegisters = 192, kAttentionRegisters = 96, kCopyRegisters = 32;
static_assert((2 * kLayerRegisters + kAttentionRegisters + kCopyRegisters) * 128 == 128 * kThreads);

template <int kCount>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Has each of a block's warps take up its role: of a layer, of attention, or one that copies; the
/// cluster's blocks end together, as each may still write into the other.
template <typename Layer, typename Attention, typename Copy>
__device__ void take_roles(const Layer& layer, const Attention& attention, const Copy& copy) {
  const int role = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (role < kLayers) {
    take_registers<kLayerRegisters>();
    layer(role);
  } else if (role == kLayers) {
    give_registers<kAttentionRegisters>();
    attention();
  } else {
    give_registers<kCopyRegisters>();
    if (threadIdx.x % 128 / 32 == 0) copy();
  }
  __syncwarp();
  recurrent::cuda::cluster_arrive();
  recurrent::cuda::cluster_wait();
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
