#include "runtime/cuda/check.h"

#include "base/check.h"
#include "runtime/device_fault.h"

namespace sluice::runtime::cuda {

void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  // What is sticky comes back with the next call; anything else must not be blamed on it.
  cudaGetLastError();
  const char* name = cudaGetErrorName(result);
  if (loses_device(name)) {
    base::fail(ErrorCode::kDeviceLost,
               "could not {}: {} ({}); the GPU is lost to this process, which must be restarted",
               what, cudaGetErrorString(result), name);
  }
  base::fail(result == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
             "could not {}: {} ({})", what, cudaGetErrorString(result), name);
}

void check_not_lost(cudaError_t result, std::string_view what) {
  if (loses_device(cudaGetErrorName(result))) check(result, what);
}

}  // namespace sluice::runtime::cuda
