#include "base/check.h"
#include "runtime/cuda/device_trace.h"

/// In place of cupti_trace.cpp where CUPTI's headers are not there.
namespace sluice::runtime::cuda {

std::unique_ptr<DeviceTrace> open_cupti_trace() {
  base::fail(ErrorCode::kDevice,
             "this build is without CUPTI, for its headers were not there; install CUDA's "
             "cuda-cupti-dev and build again");
}

}  // namespace sluice::runtime::cuda
