#pragma once

#include <cuda_runtime_api.h>

namespace sluice::runtime::cuda {

/// Which of the architectures that this was compiled for the current GPU runs.
struct KernelCode {
  /// Why it runs none, in CUDA's words; null if it runs one.
  const char* missing = nullptr;
  /// Whether it is the one with what only compute capability 9.0 has (sm_90a: clusters, bulk
  /// copies, wgmma). A GPU may be a Hopper and run code without it, translated from PTX.
  bool hopper = false;
};

/// Runs a kernel on a stream of the current GPU and waits for it. Throws ErrorCode::kDevice if that
/// fails though there is code.
KernelCode code_of_current_gpu(cudaStream_t stream);

}  // namespace sluice::runtime::cuda
