#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace sluice::runtime::cuda {

/// Throws ErrorCode::kOutOfMemory or kDevice with what was tried and CUDA's own words, unless
/// `result` is success. `what` completes "could not ...".
void check(cudaError_t result, std::string_view what);

}  // namespace sluice::runtime::cuda
