#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/joined_step/arguments.h"
#include "kernels/recurrent/cuda/joined_step/launch.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

struct Kernel {
  const void* function;  ///< of Factors and CellForwardArgs
  int shared_bytes;
};
/// The LSTM's and the GRU's that resets after the product.
Kernel kernel_of(CellType cell, DType storage);

}  // namespace sluice::kernels::recurrent::cuda::joined_step
