#pragma once

#include "kernels/matmul/cuda/by_parts/arguments.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// Queues the product on so many blocks, each of which takes a multiprocessor (Hopper alone).
void multiply(runtime::cuda::CudaStream& stream, const Arguments& args, int blocks);

}  // namespace sluice::kernels::matmul::cuda::by_parts
