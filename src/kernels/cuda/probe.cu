#include <cuda_runtime.h>

#include "kernels/cuda/probe.h"

namespace sluice::kernels::cuda {
namespace {

/// Stands for all: they are compiled for the same architectures.
__global__ void probe_kernel() {}

}  // namespace

const char* refuse_current_gpu() {
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (result == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(result);
}

}  // namespace sluice::kernels::cuda
