#pragma once

#include "kernels/matmul/matmul.h"
#include "runtime/device.h"

namespace sluice::kernels::matmul::cuda {

/// Queues c = beta * c + bias on every row of c [m, n], float32 or float64; c is not read if beta
/// is 0, and without a bias nothing is added.
void finish_rows(runtime::Stream& stream, const Tensor& c, double beta, const Tensor& bias);

}  // namespace sluice::kernels::matmul::cuda
