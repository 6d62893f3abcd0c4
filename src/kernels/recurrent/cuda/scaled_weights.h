#pragma once

#include "kernels/recurrent/cuda/engine.h"

/// Weights in TF32 as float16, each matrix scaled by its largest number (scaled_factors.h).
namespace sluice::kernels::recurrent::cuda {

/// Queues the scaling of all layers' input weights where scales_weights, and of recurrent ones
/// where scales_steps, into what is packed.
void scale_weights(cudaStream_t stream, const Engine& engine,
                   const std::vector<LayerWeights>& weights, std::byte* packed);

/// The weights of a layer and direction, and what takes a product with them back.
struct ScaledWeights {
  const std::uint16_t* values;  ///< float16 [G*H, input], or of recurrent ones [G*H, H]
  const float* alpha;           ///< [1], on the device, like
  const float* zero;            ///< [1]
};
ScaledWeights scaled_input_weights(const Run& run, std::int64_t layer, std::int64_t direction);
ScaledWeights scaled_recurrent_weights(const Run& run, std::int64_t layer, std::int64_t direction);

}  // namespace sluice::kernels::recurrent::cuda
