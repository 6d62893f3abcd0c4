#pragma once

#include "kernels/recurrent/cuda/persistent/extra_arguments.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"

/// LayerRules in device code.
namespace sluice::kernels::recurrent::cuda::persistent {

__device__ inline std::uint32_t row_id(const LayerRules& rules, int row) {
  return static_cast<std::uint32_t>(rules.row_ids ? rules.row_ids[row] : row);
}

/// Not zero if no state of a row passes the boundary before time `boundary`; `length` is the row's.
__device__ inline std::int32_t reset_at(const LayerRules& rules, const Extent& extent, int row,
                                        int boundary, int length) {
  if (rules.resets == nullptr || boundary >= length) return 0;
  return rules.resets[boundary * extent.rows + row];
}
/// The boundary behind the step at time t; past all rows' ends where there is none.
__device__ inline int boundary_behind(const Extent& extent, bool reverse, int t) {
  if (!reverse) return t + 1;
  return t > 0 ? t : extent.time;
}
/// The same before the piece's first step.
__device__ inline int boundary_before(const Extent& extent, bool reverse) {
  return reverse ? extent.time : extent.begin;
}

/// What the recurrent product reads of the h of four units from `unit` on, a multiple of four, and
/// what comes back from there, is times these.
__device__ inline void dropout_multipliers(float (&multipliers)[4], const LayerRules& rules,
                                           int direction, int row, int unit) {
  const Rate& rate = rules.recurrent_dropout;
  const std::uint32_t number =
      unit_of(CellMask::kRecurrentDropout, direction) + static_cast<std::uint32_t>(unit);
  const auto words = rules.source.key().words(row_id(rules, row), 0, number / 4);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    multipliers[k] = words[k] < rate.threshold ? 0.0f : rate.multiplier;
  }
}
/// The same of one unit.
__device__ inline float dropout_multiplier(const LayerRules& rules, int direction, int row,
                                           int unit) {
  float four[4] = {1, 1, 1, 1};
  if (rules.recurrent_dropout.threshold != 0) {
    dropout_multipliers(four, rules, direction, row, unit / 4 * 4);
  }
  const float low = unit % 2 == 0 ? four[0] : four[1], high = unit % 2 == 0 ? four[2] : four[3];
  return unit % 4 < 2 ? low : high;
}

__device__ inline float mix(float kept, float before, float fresh) {
  return kept * before + (1.0f - kept) * fresh;
}

/// The shares of their states that a thread's unit keeps in its rows, step after step. One random
/// number serves four units, which are four lanes': each draws one for all of them, of another row
/// or state.
template <bool kHasCellState, int kTiles>
class ZoneoutShares {
  static constexpr int kMasks = kTiles * (kHasCellState ? 2 : 1);
  static_assert(kMasks <= 4);

 public:
  __device__ ZoneoutShares(const LayerRules& rules, const Share& share, int rank,
                           const Owner& owner)
      : lane_(owner.lane) {
    const int mine = owner.lane / 4 % 4, tile = kHasCellState ? mine / 2 : mine;
    const bool of_c = kHasCellState && mine % 2 == 1;
    draws_ = rules.training && (rules.zoneout_h.threshold | rules.zoneout_c.threshold) != 0;
    key_ = rules.source.key();
    const int row = owner.row + tile * 8;
    id_ = row < share.rows ? row_id(rules, share.first_row + row) : 0;
    group_ = (unit_of(of_c ? CellMask::kZoneoutC : CellMask::kZoneoutH, share.direction) +
              static_cast<std::uint32_t>(rank * kUnits + owner.unit)) /
             4;
    threshold_ = of_c ? rules.zoneout_c.threshold : rules.zoneout_h.threshold;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      h[n] = rules.zoneout_h.value;
      c[n] = rules.zoneout_c.value;
    }
  }

  /// Draws those of the step at time t. Called by whole warps.
  __device__ void draw(int t) {
    if (!draws_) return;
    const auto words = key_.words(id_, static_cast<std::uint32_t>(t), group_);
    unsigned below = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) below |= (words[k] < threshold_ ? 1u : 0u) << k;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      h[n] = kept(below, kHasCellState ? 2 * n : n);
      if constexpr (kHasCellState) c[n] = kept(below, 2 * n + 1);
    }
  }

  float h[kTiles], c[kTiles];

 private:
  /// By what the lane has drawn that draws the mask.
  __device__ float kept(unsigned below, int mask) const {
    const unsigned bits = __shfl_sync(~0u, below, (lane_ & 19) + mask * 4);
    return bits >> (lane_ / 4 % 4) & 1 ? 1.0f : 0.0f;
  }

  const int lane_;
  bool draws_;
  runtime::DropoutKey key_;
  std::uint32_t id_, group_, threshold_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
