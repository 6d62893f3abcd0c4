#include "base/check.h"
#include "kernels/recurrent/cuda/cudnn_plan.h"

/// In place of cudnn_plan.cpp where there are no headers of cuDNN to build it with.
namespace sluice::kernels::recurrent::cuda {

std::optional<std::string> refuse_cudnn(const Descriptor&, CudnnAlgorithm) {
  return "Sluice was built without cuDNN's headers";
}

std::unique_ptr<Plan> make_cudnn_plan(const Descriptor&, CudnnAlgorithm, const Device&) {
  base::fail(ErrorCode::kUnsupported, "Sluice was built without cuDNN's headers");
}

}  // namespace sluice::kernels::recurrent::cuda
