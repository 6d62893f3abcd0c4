#pragma once

#include "kernels/recurrent/cuda/cell_forward_unit.h"
#include "kernels/recurrent/cuda/state_rules.h"

/// What forward kernels of cells with more than their equations do with one unit of one row around
/// the cell.
namespace sluice::kernels::recurrent::cuda {

/// The unit's c before the step, and its h unless that is a projection's.
template <typename Cell, typename T>
__device__ UnitForward state_before(const CellForwardArgs& args, std::int64_t row,
                                    std::int64_t unit) {
  const std::int64_t at = row * args.hidden + unit;
  UnitForward before;
  if constexpr (Cell::kHasCellState) before.c = args.c_before[at];
  if (args.h_before) before.h = load(static_cast<const T*>(args.h_before) + at);
  return before;
}

/// Whether the gates of a cell have a hard sigmoid.
template <typename Cell>
inline constexpr bool kHasHardGates = false;
template <template <typename> typename Cell, typename Math>
inline constexpr bool kHasHardGates<Cell<HardMath<Math>>> = true;

/// Saves a unit's value `g` for backward. The gradient of a hard sigmoid asks whether its gate is
/// below 1, so rounding must not make it 1.
template <typename Cell, typename T>
__device__ void save_gate(int g, T* to, float value) {
  store(to, value);
  if constexpr (kHasHardGates<Cell> && sizeof(T) == 2) {
    // The largest number of T below 1.
    constexpr float kBelowOne = 1.0f - (std::is_same_v<T, __half> ? 0x1p-11f : 0x1p-8f);
    const bool is_gate = g < 2 || (Cell::kHasCellState && g == 3);
    if (is_gate && value < 1.0f && load(to) == 1.0f) store(to, kBelowOne);
  }
}

/// Writes the cell state of an active unit, from what the step makes of it.
__device__ inline void carry_c(const CellForwardArgs& args, const CellForwardExtras& extras,
                               std::int64_t row, std::int64_t unit, float before, float fresh) {
  const std::int64_t at = row * args.hidden + unit;
  const float c = mix(kept_share(extras.rules, CellMask::kZoneoutC, row, unit), before, fresh);
  if (extras.c_fresh) extras.c_fresh[at] = fresh;
  if (args.c_sequence) args.c_sequence[at] = c;
  args.c_after[at] = is_cut(extras.rules, row) ? 0.0f : c;
}

/// The same of h; a projection sees to the rest itself.
template <typename T>
__device__ void carry_h(const CellForwardArgs& args, const CellForwardExtras& extras,
                        std::int64_t row, std::int64_t unit, float before, float fresh) {
  const std::int64_t at = row * args.hidden + unit;
  T* h_after = static_cast<T*>(args.h_after) + at;
  if (args.y == nullptr) return store(h_after, fresh);
  const float h = mix(kept_share(extras.rules, CellMask::kZoneoutH, row, unit), before, fresh);
  store(static_cast<T*>(args.y) + row * args.y_stride + unit, h);
  T* dropped = extras.h_dropped ? static_cast<T*>(extras.h_dropped) + at : nullptr;
  store_state(extras.rules, row, unit, is_cut(extras.rules, row), h, h_after, dropped);
}

/// The step of a unit whose row has ended.
template <typename Cell, typename T>
__device__ void skip_unit(const CellForwardArgs& args, const CellForwardExtras& extras,
                          std::int64_t row, std::int64_t unit, const UnitForward& before) {
  const std::int64_t at = row * args.hidden + unit;
  skip_unit<Cell, T>(args, row, unit);
  if (extras.c_fresh) extras.c_fresh[at] = before.c;
  if (extras.h_dropped) {
    store(static_cast<T*>(extras.h_dropped) + at,
          before.h * dropout_multiplier(extras.rules, row, unit));
  }
}

}  // namespace sluice::kernels::recurrent::cuda
