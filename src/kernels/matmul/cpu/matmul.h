#pragma once

#include "kernels/matmul/matmul.h"

namespace sluice::kernels::matmul::cpu {

/// The CPU leaf: `args` are checked already.
void matmul(runtime::Stream& stream, const MatmulArgs& args);

}  // namespace sluice::kernels::matmul::cpu
