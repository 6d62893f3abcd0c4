#pragma once

#include "kernels/recurrent/cuda/cell_extras.h"
#include "kernels/recurrent/cuda/cell_grid.h"

/// StateRules in device code.
namespace sluice::kernels::recurrent::cuda {

/// Whether the state of a row that takes part in the step goes no further.
__device__ inline bool is_cut(const StateRules& rules, std::int64_t row) {
  return rules.resets != nullptr && is_active(rules.lengths, row, rules.boundary) &&
         rules.resets[row] != 0;
}

/// Whether the word of a unit is below the threshold of the rate.
__device__ inline bool is_chosen(const StateRules& rules, CellMask mask, const Rate& rate,
                                 std::int64_t row, std::int64_t t, std::int64_t unit) {
  const auto id = static_cast<std::uint32_t>(rules.row_ids ? rules.row_ids[row] : row);
  const std::uint32_t number = unit_of(mask, rules.direction) + static_cast<std::uint32_t>(unit);
  return rules.source.key().word(id, static_cast<std::uint32_t>(t), number) < rate.threshold;
}

/// The share of its state before the step that a unit of an active row keeps.
__device__ inline float kept_share(const StateRules& rules, CellMask mask, std::int64_t row,
                                   std::int64_t unit) {
  const Rate& rate = mask == CellMask::kZoneoutH ? rules.zoneout_h : rules.zoneout_c;
  if (!rules.training || rate.threshold == 0) return rate.value;
  return is_chosen(rules, mask, rate, row, rules.t, unit) ? 1.0f : 0.0f;
}

__device__ inline float mix(float kept, float before, float fresh) {
  return kept * before + (1.0f - kept) * fresh;
}

/// What the recurrent product reads of a unit's h, and what comes back from there, is times this.
__device__ inline float dropout_multiplier(const StateRules& rules, std::int64_t row,
                                           std::int64_t unit) {
  const Rate& rate = rules.recurrent_dropout;
  return is_chosen(rules, CellMask::kRecurrentDropout, rate, row, 0, unit) ? 0.0f : rate.multiplier;
}

/// Stores the state that goes on from a step, or zero, and what the next product reads of it.
template <typename T>
__device__ void store_state(const StateRules& rules, std::int64_t row, std::int64_t unit, bool cut,
                            float h, T* state, T* dropped) {
  store(state, cut ? 0.0f : h);
  if (dropped) store(dropped, load(state) * dropout_multiplier(rules, row, unit));
}

/// The gradient that later steps give to the h after the step, at element `at`.
__device__ inline float carried_dh(const StateRules& rules, std::int64_t row, std::int64_t unit,
                                   const float* dh, const float* product, std::int64_t at) {
  if (is_cut(rules, row)) return 0;
  return product ? dh[at] + product[at] * dropout_multiplier(rules, row, unit) : dh[at];
}

}  // namespace sluice::kernels::recurrent::cuda
