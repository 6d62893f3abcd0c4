#include "kernels/recurrent/cuda/cell_backward_unit.h"
#include "kernels/recurrent/cuda/state_rules.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The step of an active unit: dh and dc are the gradients of its h and c after the step, or of its
/// h before the projection.
template <typename Cell, typename T>
__device__ void step_unit(const CellBackwardArgs& args, const CellBackwardExtras& extras,
                          std::int64_t row, std::int64_t unit, UnitBackward values, float dh,
                          float dc) {
  const std::int64_t at = row * args.hidden + unit;
  const float* gates = values.gates;
  const auto weight = [&](int k) {
    return extras.peepholes ? extras.peepholes[k * args.hidden + unit] : 0.0f;
  };
  float h_around = 0, c_around = 0;
  if (args.dh_direct) {
    h_around = kept_share(extras.rules, CellMask::kZoneoutH, row, unit) * dh;
    dh -= h_around;
  }
  if constexpr (Cell::kHasCellState) {
    if (extras.c_fresh) values.c = extras.c_fresh[at];
    c_around = kept_share(extras.rules, CellMask::kZoneoutC, row, unit) * dc;
    const float d_o = Cell::d_gate(3, gates, values.c_before, values.c, 0, dh, 0);
    dc = Cell::whole_dc(gates, values.c, dh, dc - c_around) + d_o * weight(2);
  }
  float d[Cell::kGates];
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    d[g] = Cell::d_gate(g, gates, values.c_before, values.c, values.h_before, dh, dc);
    store_gate<Cell, T>(args, row, unit, g, d[g], Cell::d_recurrent(g, gates, d[g]));
  }
  if constexpr (Cell::kHasCellState) {
    args.dc[at] = Cell::dc_before(gates, dc) + d[0] * weight(0) + d[1] * weight(1) + c_around;
  }
  if (args.dh_direct) args.dh_direct[at] = Cell::dh_direct(gates, dh) + h_around;
}

template <typename Cell, typename T>
__global__ void backward_kernel(const CellBackwardArgs args, const CellBackwardExtras extras) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    const bool active = is_active(args.lengths, row, args.t);
    // With a projection dh has all of it.
    float dh = args.dh_direct == nullptr
                   ? args.dh[at]
                   : carried_dh(extras.rules, row, unit, args.dh, extras.product, at);
    if (!active) return skip_unit<Cell, T>(args, row, unit, dh);
    if (args.dy) dh += load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
    float dc = 0;
    if constexpr (Cell::kHasCellState) dc = is_cut(extras.rules, row) ? 0.0f : args.dc[at];
    step_unit<Cell, T>(args, extras, row, unit, load_unit<Cell, T>(args, row, unit), dh, dc);
  });
}

template <typename T>
__global__ void split_kernel(const SplitGradient args, const StateRules rules,
                             const float* const product) {
  for_units(args.rows, args.output, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.output + unit;
    const bool active = is_active(args.lengths, row, args.t);
    float dh = carried_dh(rules, row, unit, args.dh, product, at);
    if (active && args.dy) dh += load(static_cast<const T*>(args.dy) + row * args.dy_stride + unit);
    const float kept = active ? kept_share(rules, CellMask::kZoneoutH, row, unit) : 1.0f;
    store(static_cast<T*>(args.through) + at, (1.0f - kept) * dh);
    args.past[at] = kept * dh;
  });
}

__global__ void finish_kernel(const StateRules rules, const FinishGradients args) {
  const std::int64_t width = args.hidden < args.output ? args.output : args.hidden;
  for_units(args.rows, width, [&](std::int64_t row, std::int64_t unit) {
    if (args.dc && unit < args.hidden && is_cut(rules, row)) {
      args.dc[row * args.hidden + unit] = 0;
    }
    if (unit >= args.output) return;
    const std::int64_t at = row * args.output + unit;
    args.dh[at] = carried_dh(rules, row, unit, args.dh, args.product, at);
  });
}

}  // namespace

void cell_backward_extras(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                          const CellBackwardExtras& extras) {
  dispatch_any_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    backward_kernel<Cell, T>
        <<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args, extras);
  });
  check_cell_launch();
}

void split_gradient(cudaStream_t stream, DType storage, const SplitGradient& args,
                    const StateRules& rules, const float* product) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    split_kernel<T>
        <<<cell_grid(args.rows, args.output), kCellBlock, 0, stream>>>(args, rules, product);
  });
  check_cell_launch();
}

void finish_gradients(cudaStream_t stream, const StateRules& rules, const FinishGradients& args) {
  const std::int64_t width = std::max(args.hidden, args.output);
  finish_kernel<<<cell_grid(args.rows, width), kCellBlock, 0, stream>>>(rules, args);
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
