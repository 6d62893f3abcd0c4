#pragma once

#include "kernels/matmul/leaves.h"

namespace sluice::kernels::matmul::cuda {

extern const Leaves kLeaves;

}  // namespace sluice::kernels::matmul::cuda
