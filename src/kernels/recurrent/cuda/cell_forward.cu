#include "kernels/recurrent/cuda/cell_grid.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// What a unit has before the recurrent product is there.
struct UnitForward {
  float inputs[4];
  float bias_hn = 0, c = 0, h = 0;
};

template <typename Cell, typename T>
__device__ UnitForward load_unit(const CellForwardArgs& args, std::int64_t row, std::int64_t unit) {
  const std::int64_t at = row * args.hidden + unit;
  const float* x = args.input + row * args.input_stride + unit;
  UnitForward values;
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    values.inputs[g] = x[g * args.hidden] + args.bias[g * args.hidden + unit];
  }
  if constexpr (Cell::kHasCellState) {
    values.c = args.c_before[at];
  } else {
    values.bias_hn = args.bias_hn[unit];
    values.h = load(static_cast<const T*>(args.h_before) + at);
  }
  return values;
}

/// The step of an active unit.
template <typename Cell, typename T>
__device__ void step_unit(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                          const UnitForward& before) {
  const std::int64_t at = row * args.hidden + unit;
  const float* r = args.recurrent + row * Cell::kGates * args.hidden + unit;
  float products[Cell::kGates], gates[Cell::kSaved];
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) products[g] = r[g * args.hidden];
#pragma unroll
  for (int k = 0; k < Cell::kSaved; ++k) {
    const int g = Cell::order(k), p = Cell::product_of(g);
    gates[g] = Cell::gate(g, before.inputs[p], products[p], before.bias_hn, gates);
  }
  const float c = Cell::next_c(gates, before.c);
  const float h = Cell::next_h(gates, c, before.h);
  if constexpr (Cell::kHasCellState) {
    args.c_after[at] = c;
    if (args.c_sequence) args.c_sequence[at] = c;
  }
  store(static_cast<T*>(args.h_after) + at, h);
  if (args.y) store(static_cast<T*>(args.y) + row * args.y_stride + unit, h);
  if (args.saved == nullptr) return;
  T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) store(saved + g * args.hidden, gates[g]);
}

template <typename Cell, typename T>
__device__ void skip_unit(const CellForwardArgs& args, std::int64_t row, std::int64_t unit) {
  const std::int64_t at = row * args.hidden + unit;
  if constexpr (Cell::kHasCellState) {
    args.c_after[at] = args.c_before[at];
    if (args.c_sequence) args.c_sequence[at] = 0;
  }
  T* h_after = static_cast<T*>(args.h_after) + at;
  if (args.h_before) {
    *h_after = static_cast<const T*>(args.h_before)[at];
  } else {
    store(h_after, 0);
  }
  if (args.y) store(static_cast<T*>(args.y) + row * args.y_stride + unit, 0);
}

template <typename Cell, typename T>
__global__ void forward_kernel(const CellForwardArgs args) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= args.hidden) return;
  UnitForward before = load_unit<Cell, T>(args, blockIdx.y, unit);
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    if (row != blockIdx.y) before = load_unit<Cell, T>(args, row, unit);
    if (is_active(args.lengths, row, args.t)) {
      step_unit<Cell, T>(args, row, unit, before);
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
    forward_kernel<Cell, T><<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
