#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/joined_step/kernel.h"
#include "kernels/recurrent/cuda/joined_step/kernels.h"

namespace sluice::kernels::recurrent::cuda::joined_step {
namespace {

template <typename Cell, typename T>
Kernel kernel() {
  return {reinterpret_cast<const void*>(step_kernel<Cell, T>), Ring<Cell::kGates>::kBytes};
}

}  // namespace

// Of one source file, since what the kernels have in common then shrinks to little.
Kernel kernel_of(CellType cell, DType storage) {
  Kernel found{};
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    found =
        cell == CellType::kLstm ? kernel<LstmCell<FastMath>, T>() : kernel<GruCell<FastMath>, T>();
  });
  return found;
}

}  // namespace sluice::kernels::recurrent::cuda::joined_step
