#pragma once

#include "kernels/recurrent/cuda/fused_step.h"

namespace sluice::kernels::recurrent::cuda {

extern const StepKernels kFloat32Steps, kBFloat16Steps, kFloat16Steps;

}  // namespace sluice::kernels::recurrent::cuda
