#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/reset_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename Cell, typename T>
__global__ void forward_kernel(const ResetForward args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    float value = 0;
    if (is_active(args.lengths, row, args.t)) {
      const float x = args.input[row * args.input_stride + unit] + args.bias[unit];
      const float r = Cell::gate(0, x, args.recurrent[row * 3 * args.hidden + unit], 0, nullptr);
      value = r * load(static_cast<const T*>(args.h) + row * args.hidden + unit);
    }
    store(static_cast<T*>(args.h_reset) + row * args.hidden + unit, value);
  });
}

template <typename Cell, typename T>
__global__ void backward_kernel(const ResetBackward args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    // Of other rows the product is zero, as are the gate gradients that it is made from.
    if (!is_active(args.lengths, row, args.t)) return;
    const std::int64_t at = row * args.hidden + unit;
    const float r = load(static_cast<const T*>(args.saved) + row * 3 * args.hidden + unit);
    const float h = load(static_cast<const T*>(args.h) + at), d = args.product[at];
    store(static_cast<T*>(args.d_input) + row * args.d_input_stride + unit,
          Cell::d_reset(r, d * h));
    if (args.dh) {
      args.dh[at] += d * r;
    } else {
      args.product[at] = d * r;
    }
  });
}

}  // namespace

void reset_forward(cudaStream_t stream, const CellKind& kind, const ResetForward& args) {
  dispatch_any_cell(kind, [&](auto cell, auto tag) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(tag)::type;
    if constexpr (Cell::kResetsBefore) {
      forward_kernel<Cell, T><<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args);
    }
  });
  check_cell_launch();
}

void reset_backward(cudaStream_t stream, const CellKind& kind, const ResetBackward& args) {
  dispatch_any_cell(kind, [&](auto cell, auto tag) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(tag)::type;
    if constexpr (Cell::kResetsBefore) {
      backward_kernel<Cell, T><<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args);
    }
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
