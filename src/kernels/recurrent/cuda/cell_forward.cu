#include "kernels/recurrent/cuda/cell_grid.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Stores what follows from the gates of an active unit.
template <typename Cell, typename T>
__device__ void store_active(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                             const float* gates) {
  const std::int64_t at = row * args.hidden + unit;
  float c = 0, h_before = 0;
  if constexpr (Cell::kHasCellState) {
    c = Cell::next_c(gates, args.c_before[at]);
    args.c_after[at] = c;
    if (args.c_sequence) args.c_sequence[at] = c;
  } else {
    h_before = load(static_cast<const T*>(args.h_before) + at);
  }
  const float h = Cell::next_h(gates, c, h_before);
  store(static_cast<T*>(args.h_after) + at, h);
  if (args.y) store(static_cast<T*>(args.y) + row * args.y_stride + unit, h);
  if (args.saved == nullptr) return;
  T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) store(saved + g * args.hidden, gates[g]);
}

template <typename Cell, typename T>
__device__ void store_inactive(const CellForwardArgs& args, std::int64_t row, std::int64_t unit) {
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
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    if (!is_active(args.lengths, row, args.t)) return store_inactive<Cell, T>(args, row, unit);
    const float* x = args.input + row * args.input_stride + unit;
    const float* r = args.recurrent + row * Cell::kGates * args.hidden + unit;
    const float bias_hn = args.bias_hn ? args.bias_hn[unit] : 0.0f;
    float inputs[Cell::kGates], products[Cell::kGates];
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      inputs[g] = x[g * args.hidden] + args.bias[g * args.hidden + unit];
      products[g] = r[g * args.hidden];
    }
    float gates[Cell::kSaved];
#pragma unroll
    for (int k = 0; k < Cell::kSaved; ++k) {
      const int g = Cell::order(k), p = Cell::product_of(g);
      gates[g] = Cell::gate(g, inputs[p], products[p], bias_hn, gates);
    }
    store_active<Cell, T>(args, row, unit, gates);
  });
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
