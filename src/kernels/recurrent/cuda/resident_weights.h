#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/rung.h"

/// What launches that keep recurrent weights on chip, all or some of them, need from a plan: packed
/// weights and exchange buffers. They are those of persistent/, cluster_wgmma/, cluster_backward/,
/// persistent_grid/, wide/ and streamed/.
namespace sluice::kernels::recurrent::cuda {

struct PassBytes {
  std::int64_t forward, backward;  ///< 0 for a pass without such a launch or not planned for
};

/// Bytes of a layer and direction's recurrent weights, packed as a launch's threads load them.
PassBytes resident_weight_bytes(const Descriptor& descriptor, const Rung& rung);
/// Where the packed weights go.
struct ResidentWeights {
  void* forward;
  void* backward;  ///< null unless backward is such a launch
  float* largest;  ///< magnitude of float32 weights, which sets their scale
};

/// Bytes of global memory through which the blocks of a launch exchange values. Callers need not
/// initialize it.
PassBytes exchange_bytes(const Descriptor& descriptor, const Rung& rung);

/// Packs `weight_hh` [G*H, H] for both passes.
void pack_resident_weights(cudaStream_t stream, const Descriptor& descriptor, const Rung& rung,
                           const float* weight_hh, const ResidentWeights& to);

}  // namespace sluice::kernels::recurrent::cuda
