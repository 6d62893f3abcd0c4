#pragma once

#include <cuda_runtime_api.h>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/persistent/arguments.h"

/// What of layer norm no step waits for: the norm of the input's products, of all steps of a piece
/// at once. Gates of a unit lie together in what forward and backward tell each other.
namespace sluice::kernels::recurrent::cuda::persistent {

struct NormaliseInputs {
  std::int64_t places;  ///< time steps times rows
  std::int64_t first;   ///< the place of the first among all of the run
  std::int32_t hidden, directions;
  float* input;             ///< products [places, D*4H], in and out: normalised, times the gains
  const float* gain_ih[2];  ///< [4*H]
  void* norm_ih[2];         ///< out [.., H, 4] in storage: normalised; null in inference
  float* inverses[2];       ///< out [.., 3]: what they were divided by, inverted, is the first
};
void normalise_inputs(cudaStream_t stream, DType storage, const NormaliseInputs& args);

/// The gradients of the input's products from those of the gates' sums.
struct NormaliseInputGradients {
  std::int64_t places, first;
  std::int32_t hidden, directions;
  const void* d_sums[2];  ///< [.., H, 4] in storage, as all of these
  const void* norm_ih[2];
  const float* inverses[2];
  const float* gain_ih[2];
  void* d_input;  ///< out [.., D*4H]
};
void normalise_input_gradients(cudaStream_t stream, DType storage,
                               const NormaliseInputGradients& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent
