#include "base/check.h"
#include "kernels/recurrent/cuda/cudnn_places.h"
#include "kernels/recurrent/cuda/cudnn_plan.h"

/// In place of cudnn_plan.cpp and cudnn_places.cpp where there are no headers of cuDNN to build it
/// with.
namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr const char* kReason = "Sluice was built without cuDNN's headers";

void place(const CudnnStack&, runtime::Device&, CudnnLayout&) {
  base::fail(ErrorCode::kUnsupported, "{}", kReason);
}

}  // namespace

constexpr CudnnPlaces kCudnnPlaces{place};

std::optional<std::string> refuse_cudnn(const Descriptor&, CudnnAlgorithm) { return kReason; }

std::unique_ptr<Plan> make_cudnn_plan(const Descriptor&, CudnnAlgorithm, const Device&) {
  base::fail(ErrorCode::kUnsupported, "{}", kReason);
}

}  // namespace sluice::kernels::recurrent::cuda
