#include "runtime/cuda/check.h"
#include "runtime/cuda/kernel_code.h"

namespace sluice::runtime::cuda {
namespace {

/// Stands for all: they are compiled for the same architectures.
__global__ void probe_kernel(bool* hopper) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  *hopper = true;
#else
  *hopper = false;
#endif
}

}  // namespace

KernelCode code_of_current_gpu(cudaStream_t stream) {
  constexpr const char* kWhat = "look for code for the GPU";
  KernelCode code;
  cudaFuncAttributes attributes{};
  const cudaError_t result = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (result != cudaSuccess) {
    cudaGetLastError();
    check_not_lost(result, kWhat);
    code.missing = cudaGetErrorString(result);
    return code;
  }
  bool* hopper = nullptr;
  check(cudaMalloc(&hopper, sizeof(bool)), kWhat);
  probe_kernel<<<1, 1, 0, stream>>>(hopper);
  check(cudaGetLastError(), kWhat);
  check(cudaMemcpyAsync(&code.hopper, hopper, sizeof(bool), cudaMemcpyDeviceToHost, stream), kWhat);
  check(cudaStreamSynchronize(stream), kWhat);
  check(cudaFree(hopper), kWhat);
  return code;
}

}  // namespace sluice::runtime::cuda
