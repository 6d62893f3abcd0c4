#pragma once

#include "kernels/matmul/bfloat16_product.h"

namespace sluice::kernels::matmul::onednn {

/// By oneDNN's matmul primitive. Returns false if it has no such product on this machine.
bool multiply(const BFloat16Product& product);

}  // namespace sluice::kernels::matmul::onednn
