#pragma once

#include "kernels/recurrent/cuda/cell_grid.h"

/// What both forms of the backward kernels read and write for one unit of one row.
namespace sluice::kernels::recurrent::cuda {

/// What the forward step left.
struct UnitBackward {
  float gates[4];
  float c_before = 0, c = 0, h_before = 0;
};

template <typename Cell, typename T>
__device__ UnitBackward load_unit(const CellBackwardArgs& args, std::int64_t row,
                                  std::int64_t unit) {
  const std::int64_t at = row * args.hidden + unit;
  const T* saved = static_cast<const T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
  UnitBackward values;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) values.gates[g] = load(saved + g * args.hidden);
  if constexpr (Cell::kHasCellState) {
    values.c_before = args.c_before[at];
    values.c = args.c[at];
  }
  if constexpr (Cell::kReadsState) {
    values.h_before = load(static_cast<const T*>(args.h_before) + at);
  }
  return values;
}

/// The whole gradient of the step's h.
template <typename T>
__device__ float load_dh(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                         bool active) {
  const std::int64_t at = row * args.hidden + unit;
  float dh = args.dh[at];
#pragma unroll
  for (int part = 1; part < kMostParts; ++part) {
    if (part < args.dh_parts) dh += args.dh[part * args.rows * args.hidden + at];
  }
  if (!active || args.dy == nullptr) return dh;
  return dh + load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
}

template <typename Cell, typename T>
__device__ void store_gate(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit, int g,
                           float d_gate, float d_recurrent) {
  const std::int64_t column = g * args.hidden + unit;
  store(static_cast<T*>(args.d_input) + row * args.d_input_stride + column, d_gate);
  if constexpr (Cell::kProductsApart) {
    store(static_cast<T*>(args.d_recurrent) + row * Cell::kGates * args.hidden + column,
          d_recurrent);
  }
}

/// The step of an active unit: `dh` is the whole gradient of its h, `dc` what later steps give to
/// its c. put(g, gradient of a gate, the same for the recurrent product) is called for each gate.
template <typename Cell, typename Put>
__device__ void step_unit(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                          const UnitBackward& values, float dh, float dc, const Put& put) {
  const std::int64_t at = row * args.hidden + unit;
  const float* gates = values.gates;
  if constexpr (Cell::kHasCellState) dc = Cell::whole_dc(gates, values.c, dh, dc);
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    const float d = Cell::d_gate(g, gates, values.c_before, values.c, values.h_before, dh, dc);
    put(g, d, Cell::d_recurrent(g, gates, d));
  }
  if constexpr (Cell::kHasCellState) args.dc[at] = Cell::dc_before(gates, dc);
  if (args.dh_direct) args.dh_direct[at] = Cell::dh_direct(gates, dh);
}

/// The same with gradients of gates in storage.
template <typename Cell, typename T>
__device__ void step_unit(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                          const UnitBackward& values, float dh, float dc) {
  step_unit<Cell>(args, row, unit, values, dh, dc, [&](int g, float d_gate, float d_recurrent) {
    store_gate<Cell, T>(args, row, unit, g, d_gate, d_recurrent);
  });
}

/// The step of a unit whose row has ended.
template <typename Cell, typename Put>
__device__ void skip_unit(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                          float dh, const Put& put) {
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) put(g, 0, 0);
  if (args.dh_direct) args.dh_direct[row * args.hidden + unit] = dh;
}
template <typename Cell, typename T>
__device__ void skip_unit(const CellBackwardArgs& args, std::int64_t row, std::int64_t unit,
                          float dh) {
  skip_unit<Cell>(args, row, unit, dh, [&](int g, float d_gate, float d_recurrent) {
    store_gate<Cell, T>(args, row, unit, g, d_gate, d_recurrent);
  });
}

}  // namespace sluice::kernels::recurrent::cuda
