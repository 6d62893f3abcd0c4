#pragma once

#include "kernels/matmul/leaves.h"

namespace sluice::kernels::matmul::cuda {

void halve(const Context& context, const HalveArgs& args);
void make_alphas(const Context& context, std::span<const AlphaArgs> alphas);

}  // namespace sluice::kernels::matmul::cuda
