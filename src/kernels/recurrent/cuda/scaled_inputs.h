#pragma once

#include "kernels/recurrent/cuda/engine.h"

/// The products of a layer's input in TF32, of factors of float16: the weights scaled by their
/// largest, each row of the input by its own, so that no row says how exact another is.
namespace sluice::kernels::recurrent::cuda {

/// Queues the scaling of all layers' input weights where scales_weights, into what is packed.
void scale_input_weights(cudaStream_t stream, const Engine& engine,
                         const std::vector<LayerWeights>& weights, std::byte* packed);

/// The weights of a direction as float16 [G*H, input], and what takes a product with them back.
struct ScaledWeights {
  const std::uint16_t* values;
  const float* alpha;  ///< [1], on the device, like
  const float* zero;   ///< [1]
};
ScaledWeights scaled_input_weights(const Run& run, std::int64_t layer, std::int64_t direction);

/// Queues to [.., rows, D*G*H] = the input of a layer where scales_input, times its weights, for
/// the steps of a piece.
void multiply_scaled_input(const Run& run, std::int64_t lane, std::int64_t layer,
                           const Piece& piece, float* to);

}  // namespace sluice::kernels::recurrent::cuda
