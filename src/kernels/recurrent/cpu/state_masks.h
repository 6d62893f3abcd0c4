#pragma once

#include "kernels/recurrent/cpu/sequence_run.h"

/// What happens to the states of one layer and direction between the steps of its cell: resets,
/// zoneout and recurrent dropout (docs/equations.md). Elementwise, on whatever rows and units a
/// thread has; rows [rows, width] have a stride.
namespace sluice::kernels::recurrent::cpu {

template <typename T>
class StateMasks {
 public:
  using S = Sum<T>;

  StateMasks(const Descriptor& descriptor, const ForwardArgs& args, std::int64_t layer,
             std::int64_t direction, const Walk& walk)
      : descriptor_(descriptor),
        args_(args),
        direction_(direction),
        walk_(walk),
        key_(dropout_of(args, layer)),
        lengths_(args.lengths.data_as<const std::int32_t>()),
        resets_(args.resets.data_as<const std::int32_t>()) {}

  bool keeps_h() const { return descriptor_.zoneout_h > 0; }
  bool keeps_c() const { return descriptor_.zoneout_c > 0; }

  /// Zeroes the rows that start step s from zero: their state before it, or its gradient.
  template <typename U>
  void clear_resets(std::int64_t s, U* values, std::int64_t stride, const Range& rows,
                    const Range& units) const {
    for (std::int64_t row = rows.begin; resets_ && row < rows.end; ++row) {
      if (!starts_anew(s, row)) continue;
      std::fill(values + row * stride + units.begin, values + row * stride + units.end, U(0));
    }
  }

  /// state = k * before + (1 - k) * fresh, where fresh is what step s made and may be state itself.
  template <typename U>
  void zone_out(CellMask mask, std::int64_t s, const U* before, const U* fresh, U* state,
                std::int64_t stride, const Range& rows, const Range& units) const {
    for_shares(mask, s, rows, units, [&](std::int64_t row, std::int64_t unit, S kept) {
      const std::int64_t at = row * stride + unit;
      const S mixed = kept * static_cast<S>(before[at]) + (S(1) - kept) * static_cast<S>(fresh[at]);
      state[at] = static_cast<U>(mixed);
    });
  }

  /// The gradient d of the state after step s, as its part through the step and its part around it;
  /// either may be d itself.
  template <typename Through>
  void part_gradient(CellMask mask, std::int64_t s, const S* d, std::int64_t d_stride,
                     Through* through, std::int64_t through_stride, S* around,
                     std::int64_t around_stride, const Range& rows, const Range& units) const {
    for_shares(mask, s, rows, units, [&](std::int64_t row, std::int64_t unit, S kept) {
      const S whole = d[row * d_stride + unit];
      through[row * through_stride + unit] = static_cast<Through>((S(1) - kept) * whole);
      around[row * around_stride + unit] = kept * whole;
    });
  }

  /// Multipliers of recurrent dropout, one for all steps.
  void draw_dropout(S* multipliers, std::int64_t stride, const Range& rows,
                    const Range& units) const {
    const auto scale = static_cast<S>(1 / (1 - descriptor_.recurrent_dropout));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for_words(CellMask::kRecurrentDropout, row, 0, descriptor_.recurrent_dropout, units,
                [&](std::int64_t unit, bool dropped) {
                  multipliers[row * stride + unit] = dropped ? S(0) : scale;
                });
    }
  }

 private:
  /// Whether a boundary lies before step s, within the row.
  bool starts_anew(std::int64_t s, std::int64_t row) const {
    const std::int64_t boundary = walk_.time_of(s) + (walk_.reverse ? 1 : 0);
    return boundary < args_.time && is_active(lengths_, row, boundary) &&
           resets_[boundary * args_.rows + row] != 0;
  }

  /// Calls body(row, unit, share of the previous state that is kept).
  template <typename Body>
  void for_shares(CellMask mask, std::int64_t s, const Range& rows, const Range& units,
                  const Body& body) const {
    const std::int64_t t = walk_.time_of(s);
    const double rate = mask == CellMask::kZoneoutH ? descriptor_.zoneout_h : descriptor_.zoneout_c;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto all = [&](S share) {
        for (std::int64_t unit = units.begin; unit < units.end; ++unit) body(row, unit, share);
      };
      if (!is_active(lengths_, row, t)) {
        all(S(1));
      } else if (!descriptor_.training) {
        all(static_cast<S>(rate));
      } else {
        for_words(mask, row, t, rate, units,
                  [&](std::int64_t unit, bool kept) { body(row, unit, kept ? S(1) : S(0)); });
      }
    }
  }

  /// Calls body(unit, whether its word is below the threshold); units begin at a whole panel.
  template <typename Body>
  void for_words(CellMask mask, std::int64_t row, std::int64_t t, double rate, const Range& units,
                 const Body& body) const {
    const std::uint32_t threshold = runtime::dropout_threshold(rate);
    const std::uint32_t id = row_id_of(args_, row), first = unit_of(mask, direction_);
    for (std::int64_t unit = units.begin; unit < units.end; unit += 4) {
      const auto words = key_.words(id, static_cast<std::uint32_t>(t),
                                    (first + static_cast<std::uint32_t>(unit)) / 4);
      for (std::int64_t i = 0; i < 4 && unit + i < units.end; ++i) {
        body(unit + i, words[static_cast<std::size_t>(i)] < threshold);
      }
    }
  }

  const Descriptor& descriptor_;
  const ForwardArgs& args_;
  const std::int64_t direction_;
  const Walk walk_;
  const runtime::DropoutKey key_;
  const std::int32_t *lengths_, *resets_;
};

}  // namespace sluice::kernels::recurrent::cpu
