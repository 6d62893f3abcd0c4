#include "kernels/recurrent/cuda/forward_extras_unit.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// What a unit's gate sees of the cell state: of that before the step, or for o of the fresh one.
template <typename Cell>
__device__ float from_c(const CellForwardArgs& args, const float* peepholes, int g,
                        const float* gates, float c, std::int64_t unit) {
  if (!Cell::kHasCellState || peepholes == nullptr || g == 2) return 0;
  if (g == 3) return peepholes[2 * args.hidden + unit] * Cell::next_c(gates, c);
  return peepholes[g * args.hidden + unit] * c;
}

/// The step of an active unit; `before` has its state, h too if h is not projected.
template <typename Cell, typename T>
__device__ void step_unit(const CellForwardArgs& args, const CellForwardExtras& extras,
                          std::int64_t row, std::int64_t unit, const UnitForward& before) {
  const float* products = args.recurrent + row * Cell::kGates * args.hidden + unit;
  float gates[Cell::kSaved];
#pragma unroll
  for (int k = 0; k < Cell::kSaved; ++k) {
    const int g = Cell::order(k), p = Cell::product_of(g);
    const float x =
        before.inputs[p] + from_c<Cell>(args, extras.peepholes, g, gates, before.c, unit);
    gates[g] = Cell::gate(g, x, products[p * args.hidden], before.bias_hn, gates);
  }
  const float c_fresh = Cell::next_c(gates, before.c);
  if constexpr (Cell::kHasCellState) carry_c(args, extras, row, unit, before.c, c_fresh);
  carry_h<T>(args, extras, row, unit, before.h, Cell::next_h(gates, c_fresh, before.h));
  if (args.saved == nullptr) return;
  T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) {
    save_gate<Cell>(g, saved + g * args.hidden, gates[g]);
  }
}

template <typename Cell, typename T>
__global__ void forward_kernel(const CellForwardArgs args, const CellForwardExtras extras) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    UnitForward before = state_before<Cell, T>(args, row, unit);
    if (!is_active(args.lengths, row, args.t)) {
      return skip_unit<Cell, T>(args, extras, row, unit, before);
    }
    load_inputs<Cell>(args, row, unit, before);
    step_unit<Cell, T>(args, extras, row, unit, before);
  });
}

template <typename T>
__global__ void finish_kernel(const FinishProjection args, const StateRules rules,
                              T* const h_dropped) {
  for_units(args.rows, args.output, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.output + unit;
    const bool active = is_active(args.lengths, row, args.t);
    const float before = load(static_cast<const T*>(args.h_before) + at);
    const float h =
        active ? mix(kept_share(rules, CellMask::kZoneoutH, row, unit), before, args.projected[at])
               : before;
    store(static_cast<T*>(args.y) + row * args.y_stride + unit, active ? h : 0.0f);
    store_state(rules, row, unit, is_cut(rules, row), h, static_cast<T*>(args.h_after) + at,
                h_dropped ? h_dropped + at : nullptr);
  });
}

template <typename T>
__global__ void start_kernel(const StateRules rules, const StartStates args) {
  const std::int64_t width = args.hidden < args.output ? args.output : args.hidden;
  for_units(args.rows, width, [&](std::int64_t row, std::int64_t unit) {
    const bool cut = is_cut(rules, row);
    if (args.c && unit < args.hidden && cut) args.c[row * args.hidden + unit] = 0;
    if (unit >= args.output) return;
    const std::int64_t at = row * args.output + unit;
    T* h = static_cast<T*>(args.h) + at;
    T* dropped = args.h_dropped ? static_cast<T*>(args.h_dropped) + at : nullptr;
    store_state(rules, row, unit, cut, load(h), h, dropped);
  });
}

}  // namespace

void cell_forward_extras(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                         const CellForwardExtras& extras) {
  dispatch_any_cell(kind, [&](auto cell, auto storage) {
    using Cell = typename decltype(cell)::type;
    using T = typename decltype(storage)::type;
    forward_kernel<Cell, T>
        <<<cell_grid(args.rows, args.hidden), kCellBlock, 0, stream>>>(args, extras);
  });
  check_cell_launch();
}

void finish_projection(cudaStream_t stream, DType storage, const FinishProjection& args,
                       const StateRules& rules, void* h_dropped) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    finish_kernel<T><<<cell_grid(args.rows, args.output), kCellBlock, 0, stream>>>(
        args, rules, static_cast<T*>(h_dropped));
  });
  check_cell_launch();
}

void start_states(cudaStream_t stream, DType storage, const StateRules& rules,
                  const StartStates& args) {
  const std::int64_t width = std::max(args.hidden, args.output);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start_kernel<T><<<cell_grid(args.rows, width), kCellBlock, 0, stream>>>(rules, args);
  });
  check_cell_launch();
}

}  // namespace sluice::kernels::recurrent::cuda
