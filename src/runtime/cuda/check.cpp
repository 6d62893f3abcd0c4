#include "runtime/cuda/check.h"

#include "base/check.h"

namespace sluice::runtime::cuda {

void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  // What is sticky comes back with the next call; anything else must not be blamed on it.
  cudaGetLastError();
  base::fail(result == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
             "could not {}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result));
}

}  // namespace sluice::runtime::cuda
