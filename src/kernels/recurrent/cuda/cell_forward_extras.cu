#include "kernels/recurrent/cuda/cell_forward_unit.h"
#include "kernels/recurrent/cuda/state_rules.h"

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
  const std::int64_t at = row * args.hidden + unit;
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
  float h = Cell::next_h(gates, c_fresh, before.h);
  const bool cut = is_cut(extras.rules, row);
  if constexpr (Cell::kHasCellState) {
    const float c =
        mix(kept_share(extras.rules, CellMask::kZoneoutC, row, unit), before.c, c_fresh);
    if (extras.c_fresh) extras.c_fresh[at] = c_fresh;
    if (args.c_sequence) args.c_sequence[at] = c;
    args.c_after[at] = cut ? 0.0f : c;
  }
  T* h_after = static_cast<T*>(args.h_after) + at;
  if (args.y) {
    h = mix(kept_share(extras.rules, CellMask::kZoneoutH, row, unit), before.h, h);
    store(static_cast<T*>(args.y) + row * args.y_stride + unit, h);
    T* dropped = extras.h_dropped ? static_cast<T*>(extras.h_dropped) + at : nullptr;
    store_state(extras.rules, row, unit, cut, h, h_after, dropped);
  } else {
    store(h_after, h);
  }
  if (args.saved == nullptr) return;
  T* saved = static_cast<T*>(args.saved) + row * Cell::kSaved * args.hidden + unit;
#pragma unroll
  for (int g = 0; g < Cell::kSaved; ++g) store(saved + g * args.hidden, gates[g]);
}

template <typename Cell, typename T>
__global__ void forward_kernel(const CellForwardArgs args, const CellForwardExtras extras) {
  for_units(args.rows, args.hidden, [&](std::int64_t row, std::int64_t unit) {
    const std::int64_t at = row * args.hidden + unit;
    UnitForward before;
    if constexpr (Cell::kHasCellState) before.c = args.c_before[at];
    if (args.h_before) before.h = load(static_cast<const T*>(args.h_before) + at);
    if (is_active(args.lengths, row, args.t)) {
      load_inputs<Cell>(args, row, unit, before);
      step_unit<Cell, T>(args, extras, row, unit, before);
      return;
    }
    skip_unit<Cell, T>(args, row, unit);
    if (extras.c_fresh) extras.c_fresh[at] = before.c;
    if (extras.h_dropped) {
      store(static_cast<T*>(extras.h_dropped) + at,
            before.h * dropout_multiplier(extras.rules, row, unit));
    }
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
  dispatch_cell(kind, [&](auto cell, auto storage) {
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
