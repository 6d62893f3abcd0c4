#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/rung.h"

/// What the kinds of launches that keep recurrent weights on chip, or some of them (persistent/,
/// cluster_wgmma/, cluster_backward/, persistent_grid/, wide/, streamed/), want of a plan.
namespace sluice::kernels::recurrent::cuda {

struct PassBytes {
  std::int64_t forward, backward;  ///< 0 of a pass that is no such launch, or isn't planned for
};

/// The recurrent weights of a layer and direction as the threads of a launch load them.
PassBytes resident_weight_bytes(const Descriptor& descriptor, const Rung& rung);
/// Where they go.
struct ResidentWeights {
  void* forward;
  void* backward;  ///< null unless backward is such a launch, too
  float* largest;  ///< of float32 weights in magnitude: by how much their factors are scaled
};

/// What blocks of a launch tell each other through global memory; needn't be initialized.
PassBytes exchange_bytes(const Descriptor& descriptor, const Rung& rung);

/// Packs `weight_hh` [G*H, H] for both passes.
void pack_resident_weights(cudaStream_t stream, const Descriptor& descriptor, const Rung& rung,
                           const float* weight_hh, const ResidentWeights& to);

}  // namespace sluice::kernels::recurrent::cuda
