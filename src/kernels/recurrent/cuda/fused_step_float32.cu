#include "kernels/recurrent/cuda/fused_launch.h"
#include "kernels/recurrent/cuda/fused_step_kernels.h"

namespace sluice::kernels::recurrent::cuda {

const StepKernels kFloat32Steps = StepsOf<float, base::DType::kFloat32>::kKernels;

}  // namespace sluice::kernels::recurrent::cuda
