#include "kernels/recurrent/cuda/fused_launch.h"
#include "kernels/recurrent/cuda/fused_step_kernels.h"

namespace sluice::kernels::recurrent::cuda {

const StepKernels kBFloat16Steps = StepsOf<__nv_bfloat16, base::DType::kBFloat16>::kKernels;

}  // namespace sluice::kernels::recurrent::cuda
