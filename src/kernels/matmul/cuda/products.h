#pragma once

#include "runtime/cuda/blas.h"
#include "runtime/cuda/cuda_device.h"

/// Products of matrices on a GPU, each in the way that is fastest within its precision: by
/// cuBLASLt as they are, or, of large float32 matrices on Hopper, on tensor cores by parts of
/// bfloat16 (parts.h), with errors of at most twice those of float32's own sums
/// (docs/performance/float32-and-tf32.md); a factor that is infinite may give NaN there.
namespace sluice::kernels::matmul::cuda {

/// What LtProduct::run takes; d is c.
struct ProductOperands {
  const void *a, *b;
  void* c;
  double alpha = 1, beta = 0;
  const void* bias = nullptr;
};

/// Queues the product. The first one by parts on a stream takes Blas::large_workspace().
void multiply(runtime::cuda::Blas& blas, runtime::cuda::CudaStream& stream,
              const runtime::cuda::ProductSpec& spec, const ProductOperands& operands);

/// Whether it goes by parts: depends on the GPU's generation, types and extents alone.
bool goes_by_parts(const runtime::cuda::GpuProperties& gpu, const runtime::cuda::ProductSpec& spec);

}  // namespace sluice::kernels::matmul::cuda
