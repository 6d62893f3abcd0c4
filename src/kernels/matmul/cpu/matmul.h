#pragma once

#include "kernels/matmul/leaves.h"

namespace sluice::kernels::matmul::cpu {

/// The CPU leaf: `args` are checked already.
void matmul(const Context& context, const MatmulArgs& args);

inline constexpr Leaves kLeaves{matmul};

}  // namespace sluice::kernels::matmul::cpu
