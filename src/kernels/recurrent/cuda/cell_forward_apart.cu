#include "kernels/recurrent/cuda/cell_grid.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

template <typename Cell>
__device__ void load_gates(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                           float* gates) {
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) {
    gates[g] = args.gates[(row * Cell::kSaved + g) * args.hidden + unit];
  }
}

template <typename Cell>
__global__ void gate_kernel(const CellForwardArgs args, const int g) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const int p = Cell::product_of(g);
    const float x = args.input[row * args.input_stride + p * args.hidden + unit] +
                    args.bias[p * args.hidden + unit];
    const float r = args.recurrent[(row * Cell::kGates + p) * args.hidden + unit];
    float gates[Cell::kSaved] = {};
    if constexpr (Cell::kProductsApart) {
      if (g == 2) load_gates<Cell>(args, row, unit, gates);
    }
    args.gates[(row * Cell::kSaved + g) * args.hidden + unit] =
        Cell::gate(g, x, r, args.bias_hn ? args.bias_hn[unit] : 0.0f, gates);
  });
}

template <typename Cell>
__global__ void cell_state_kernel(const CellForwardArgs args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    const bool active = is_active(args.lengths, row, args.t);
    float gates[Cell::kSaved];
    load_gates<Cell>(args, row, unit, gates);
    const float before = args.c_before[at];
    const float c = active ? Cell::next_c(gates, before) : before;
    args.c_after[at] = c;
    if (args.c_sequence) args.c_sequence[at] = active ? c : 0.0f;
  });
}

template <typename Cell, typename T>
__global__ void output_kernel(const CellForwardArgs args) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    const bool active = is_active(args.lengths, row, args.t);
    float gates[Cell::kSaved];
    load_gates<Cell>(args, row, unit, gates);
    const float before = args.h_before ? load(static_cast<const T*>(args.h_before) + at) : 0.0f;
    const float c = Cell::kHasCellState ? args.c_after[at] : 0.0f;
    const float h = active ? Cell::next_h(gates, c, before) : 0.0f;
    store(static_cast<T*>(args.h_after) + at, active ? h : before);
    if (args.y) store(static_cast<T*>(args.y) + row * args.y_stride + unit, h);
    if (args.saved == nullptr) return;
    T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
    for (int g = 0; g < Cell::kSaved; ++g) store(saved + g * args.hidden, gates[g]);
  });
}

}  // namespace

void cell_forward_apart(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args) {
  const dim3 grid = cell_grid(args.rows, args.hidden);
  dispatch_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    for (int k = 0; k < Cell::kSaved; ++k) {
      gate_kernel<Cell><<<grid, kCellBlock, 0, stream>>>(args, Cell::order(k));
      check_cell_launch();
    }
    if constexpr (Cell::kHasCellState) {
      cell_state_kernel<Cell><<<grid, kCellBlock, 0, stream>>>(args);
      check_cell_launch();
    }
    output_kernel<Cell, T><<<grid, kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
