#include "kernels/recurrent/cuda/cell_backward_unit.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The whole gradients of h and c.
template <typename Cell, typename T>
__global__ void whole_kernel(const CellBackwardArgs args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    const bool active = is_active(args.lengths, row, args.t);
    const float dh = load_dh<T>(args, row, unit, active);
    args.dh_whole[at] = dh;
    if constexpr (Cell::kHasCellState) {
      if (!active) return;
      const UnitBackward values = load_unit<Cell, T>(args, row, unit);
      args.dc_whole[at] = Cell::whole_dc(values.gates, values.c, dh, args.dc[at]);
    }
  });
}

template <typename Cell, typename T>
__global__ void gate_kernel(const CellBackwardArgs args, const int g) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    if (!is_active(args.lengths, row, args.t)) {
      return store_gate<Cell, T>(args, row, unit, g, 0, 0);
    }
    const std::int64_t at = row * args.hidden + unit;
    const UnitBackward values = load_unit<Cell, T>(args, row, unit);
    const float dc = Cell::kHasCellState ? args.dc_whole[at] : 0.0f;
    const float d = Cell::d_gate(g, values.gates, values.c_before, values.c, values.h_before,
                                 args.dh_whole[at], dc);
    store_gate<Cell, T>(args, row, unit, g, d, Cell::d_recurrent(g, values.gates, d));
  });
}

/// What goes on to the earlier step.
template <typename Cell, typename T>
__global__ void carry_kernel(const CellBackwardArgs args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    const float dh = args.dh_whole[at];
    if (!is_active(args.lengths, row, args.t)) {
      if (args.dh_direct) args.dh_direct[at] = dh;
      return;
    }
    const UnitBackward values = load_unit<Cell, T>(args, row, unit);
    if constexpr (Cell::kHasCellState) {
      args.dc[at] = Cell::dc_before(values.gates, args.dc_whole[at]);
    }
    if (args.dh_direct) args.dh_direct[at] = Cell::dh_direct(values.gates, dh);
  });
}

}  // namespace

void cell_backward_apart(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args) {
  const dim3 grid = cell_grid(args.rows, args.hidden);
  dispatch_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    whole_kernel<Cell, T><<<grid, kCellBlock, 0, stream>>>(args);
    check_cell_launch();
    for (int g = 0; g < Cell::kGates; ++g) {
      gate_kernel<Cell, T><<<grid, kCellBlock, 0, stream>>>(args, g);
      check_cell_launch();
    }
    carry_kernel<Cell, T><<<grid, kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
