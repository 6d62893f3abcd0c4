#include "kernels/recurrent/cuda/cell_backward_unit.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename Cell, typename T>
__device__ void step_unit(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                          const UnitBackward& unit_values) {
  const std::int64_t at = row * args.hidden + unit;
  const bool active = is_active(args.lengths, row, args.t);
  const float dh = load_dh<T>(args, row, unit, active);
  if (!active) {
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) store_gate<Cell, T>(args, row, unit, g, 0, 0);
    if (args.dh_direct) args.dh_direct[at] = dh;
    return;
  }
  const float* gates = unit_values.gates;
  float dc = 0;
  if constexpr (Cell::kHasCellState) dc = Cell::whole_dc(gates, unit_values.c, dh, args.dc[at]);
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    const float d =
        Cell::d_gate(g, gates, unit_values.c_before, unit_values.c, unit_values.h_before, dh, dc);
    store_gate<Cell, T>(args, row, unit, g, d, Cell::d_recurrent(g, gates, d));
  }
  if constexpr (Cell::kHasCellState) args.dc[at] = Cell::dc_before(gates, dc);
  if (args.dh_direct) args.dh_direct[at] = Cell::dh_direct(gates, dh);
}

template <typename Cell, typename T>
__global__ void backward_kernel(const CellBackwardArgs args) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  // Of a row past its length these may be anything, and are not used.
  UnitBackward values = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) values = load_unit<Cell, T>(args, row, unit);
    step_unit<Cell, T>(args, row, unit, values);
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
