#pragma once

#include "kernels/recurrent/cuda/engine.h"
#include "runtime/cuda/blas.h"

namespace sluice::kernels::recurrent::cuda {

/// The matrices of a product of scaled factors, and by what it is multiplied and added.
struct ScaledOperands {
  const void *left, *right;   ///< float16
  const float *alpha, *beta;  ///< [1] each, on the device
  float* sum;
};
/// Queues sum = alpha * left * right + beta * sum. `spec` has sizes, strides and which factors are
/// transposed.
void multiply_scaled(const Run& run, std::int64_t lane, runtime::cuda::ProductSpec spec,
                     const ScaledOperands& operands);

}  // namespace sluice::kernels::recurrent::cuda
