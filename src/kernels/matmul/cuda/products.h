#pragma once

#include "runtime/cuda/blas.h"
#include "runtime/cuda/cuda_device.h"

/// Products of matrices on a GPU, each in the way that is fastest within its precision: by
/// cuBLASLt as they are, or, of float32 matrices on Hopper that are large enough, on tensor cores
/// by parts of bfloat16 (by_parts/arguments.h), with errors of at most twice those of float32's own
/// sums (docs/performance/float32-and-tf32.md); a factor that is infinite, or a sum beyond the
/// range, may give NaN there.
namespace sluice::kernels::matmul::cuda {

/// What LtProduct::run takes; d is c.
struct ProductOperands {
  const void *a, *b;
  void* c;
  double alpha = 1, beta = 0;
  const void* bias = nullptr;
  std::int64_t abreast = 1;  ///< products like it that are on the GPU at the same time
};

/// Queues the product, and nothing else, once the stream has its workspace (CudaStream::workspace).
void multiply(runtime::cuda::Blas& blas, runtime::cuda::CudaStream& stream,
              const runtime::cuda::ProductSpec& spec, const ProductOperands& operands);

}  // namespace sluice::kernels::matmul::cuda
