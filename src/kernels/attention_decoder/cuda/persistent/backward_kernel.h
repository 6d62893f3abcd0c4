#pragma once

#include "kernels/attention_decoder/cuda/persistent/backward_attention.h"
#include "kernels/attention_decoder/cuda/persistent/backward_layer.h"
#include "kernels/attention_decoder/cuda/persistent/roles.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

template <typename S>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ BackwardArguments<S> args) {
  // Tiles that are swizzled.
  extern __shared__ __align__(1024) std::byte backward_memory[];
  const BackwardBlock block(backward_memory);
  if (threadIdx.x == 0) {
    begin_ring(block);
    begin_barrier(block.barrier(BackwardMemory::kScoreSums), 1);
    recurrent::cuda::publish_barriers();
  }
  clear_parts(args, block);
  __syncthreads();
  recurrent::cuda::cluster_arrive();
  recurrent::cuda::cluster_wait();
  take_roles([&](int layer) { BackwardLayerRole<S>(args, block, layer).run(); },
             [&] { BackwardAttentionRole<S>(args, block).run(); },
             [&] { copy_items(args, block); });
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
