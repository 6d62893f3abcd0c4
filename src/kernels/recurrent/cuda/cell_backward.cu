#include "kernels/recurrent/cuda/cell_backward_unit.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename Cell, typename T>
__global__ void backward_kernel(const CellBackwardArgs args) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  // Of a row past its length these may be anything, and are not used.
  UnitBackward values = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) values = load_unit<Cell, T>(args, row, unit);
    const bool active = is_active(args.lengths, row, args.t);
    const float dh = load_dh<T>(args, row, unit, active);
    if (active) {
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = args.dc[row * args.hidden + unit];
      step_unit<Cell, T>(args, row, unit, values, dh, dc);
    } else {
      skip_unit<Cell, T>(args, row, unit, dh);
    }
  }
}

}  // namespace

void cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args) {
  dispatch_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    backward_kernel<Cell, T><<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
