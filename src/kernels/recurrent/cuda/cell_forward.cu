#include "kernels/recurrent/cuda/cell_forward_unit.h"
#include "kernels/recurrent/cuda/dispatch_scaled_cell.h"
#include "kernels/recurrent/cuda/scaled_cells.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename Cell, typename T>
__device__ UnitForward load_unit(const CellForwardArgs& args, std::int64_t row, std::int64_t unit) {
  UnitForward values;
  load_inputs<Cell>(args, row, unit, values);
  load_state<Cell, T>(args, row, unit, values);
  return values;
}

template <typename Cell, typename T, bool kScaled>
__global__ void forward_kernel(const CellForwardArgs args, const ScaledState state) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  UnitForward before = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) before = load_unit<Cell, T>(args, row, unit);
    if (is_active(args.lengths, row, args.t)) {
      const float* r = args.recurrent + row * Cell::kGates * args.hidden + unit;
      float products[Cell::kGates];
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) products[g] = r[g * args.hidden];
      if constexpr (kScaled) {
        const float scale = state.scales[row];
#pragma unroll
        for (float& product : products) product *= scale;
        const float h = step_unit<Cell, T>(args, row, unit, before, products);
        store(static_cast<__half*>(state.values) + row * args.hidden + unit, h / scale);
      } else {
        step_unit<Cell, T>(args, row, unit, before, products);
      }
    } else {
      skip_unit<Cell, T>(args, row, unit);
    }
  }
}

}  // namespace

void cell_forward(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args) {
  dispatch_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    forward_kernel<Cell, T, false>
        <<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args, {});
  });
  check_cell_launch();
}

void scaled_cell_forward(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                         const ScaledState& state) {
  dispatch_scaled_cell(kind, [&](auto cell) {
    using Cell = typename decltype(cell)::type;
    forward_kernel<Cell, float, true>
        <<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args, state);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
