#include "kernels/recurrent/cuda/fused_launch.h"
#include "kernels/recurrent/cuda/fused_step_kernels.h"

namespace sluice::kernels::recurrent::cuda {

const StepKernels kFloat16Steps = StepsOf<__half, base::DType::kFloat16>::kKernels;

}  // namespace sluice::kernels::recurrent::cuda
