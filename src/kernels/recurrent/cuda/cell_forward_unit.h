#pragma once

#include "kernels/recurrent/cuda/cell_grid.h"

/// One unit of one row of a forward step: what every kernel that fuses the cell reads and writes.
namespace sluice::kernels::recurrent::cuda {

/// What a unit has before the recurrent product is there.
struct UnitForward {
  float inputs[4];  ///< the input's products and the biases
  float bias_hn = 0, c = 0, h = 0;
};

/// The part that earlier steps have no share in.
template <typename Cell>
__device__ void load_inputs(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                            UnitForward& values) {
  const float* x = args.input + row * args.input_stride + unit;
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    values.inputs[g] = x[g * args.hidden] + args.bias[g * args.hidden + unit];
  }
  if constexpr (Cell::kProductsApart) values.bias_hn = args.bias_hn[unit];
}

template <typename Cell, typename T>
__device__ void load_state(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                           UnitForward& values) {
  const std::int64_t at = row * args.hidden + unit;
  if constexpr (Cell::kHasCellState) {
    values.c = args.c_before[at];
  }
  if constexpr (Cell::kReadsState) {
    values.h = load(static_cast<const T*>(args.h_before) + at);
  }
}

/// The step of an active unit, and its new h; `products` are its recurrent ones.
template <typename Cell, typename T>
__device__ float step_unit(const CellForwardArgs& args, std::int64_t row, std::int64_t unit,
                           const UnitForward& before, const float* products) {
  const std::int64_t at = row * args.hidden + unit;
  float gates[Cell::kSaved];
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
  if (args.saved == nullptr) return h;
  T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) store(saved + g * args.hidden, gates[g]);
  return h;
}

/// The step of a unit whose row has ended.
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

}  // namespace sluice::kernels::recurrent::cuda
