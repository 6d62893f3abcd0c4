#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace sluice::runtime::cuda {

/// Throws ErrorCode::kOutOfMemory, kDeviceLost (runtime/device_fault.h) or kDevice with what was
/// tried and CUDA's own words, unless `result` is success. `what` completes "could not ...".
void check(cudaError_t result, std::string_view what);

/// The same of faults that lose the device alone: for callers that answer other errors themselves,
/// and for those whose library only said that it failed (they give cudaDeviceSynchronize()).
void check_not_lost(cudaError_t result, std::string_view what);

}  // namespace sluice::runtime::cuda
