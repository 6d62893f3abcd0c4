#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/projected/arguments.h"
#include "kernels/recurrent/recurrent.h"

/// What comes before a launch: weights and values in the order in which tensor cores take them.
namespace sluice::kernels::recurrent::cuda::projected {

/// Packs the weights of a layer: canonical ones, in float32, to Layer::gates, projection and bias.
struct PackWeights {
  const float *weight_ih, *weight_hh, *weight_hr, *bias_ih, *bias_hh;
  std::int32_t input, output, hidden;
  std::int32_t input_pieces, state_pieces, blocks;
  void *gates, *projection;
  float* bias;
};
void pack_weights(cudaStream_t stream, DType storage, const PackWeights& args);

/// Brings x, and h0 of each layer, to the order of values, and clears the counters.
struct Arrange {
  /// [steps, rows, width] (null: zeros) to [steps][tiles][pieces] of values.
  struct Part {
    const void* from;
    std::byte* to;
    std::int32_t width, pieces, steps;
  };
  Part parts[1 + kMostLayers];
  std::int32_t count;  ///< of parts
  std::int32_t rows, tiles, octets;
  std::uint32_t* counters;
  std::int32_t counter_words;
};
void arrange(cudaStream_t stream, const Arrange& args);

}  // namespace sluice::kernels::recurrent::cuda::projected
