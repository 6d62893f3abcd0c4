#pragma once

#include <algorithm>

#include "kernels/recurrent/cpu/sequence.h"
#include "kernels/recurrent/cpu/team.h"

/// What the forward and the backward pass share.
namespace sluice::kernels::recurrent::cpu {

/// One direction of a layer within a run of `steps` time steps: step s of the loop is time t.
struct Walk {
  std::int64_t steps = 0;
  bool reverse = false;

  std::int64_t time_of(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  /// Row of a [steps + 1, ...] array of states that holds the state before step s.
  std::int64_t state_row(std::int64_t s) const { return reverse ? steps - s : s; }
};

inline bool is_active(const std::int32_t* lengths, std::int64_t row, std::int64_t t) {
  return lengths == nullptr || t < lengths[row];
}

/// Steps beyond the longest row do nothing, so a run ends there.
inline std::int64_t steps_of(const ForwardArgs& args) {
  if (!args.lengths) return args.time;
  const auto* lengths = args.lengths.data_as<const std::int32_t>();
  const std::int64_t longest = *std::max_element(lengths, lengths + args.rows);
  return std::clamp<std::int64_t>(longest, 0, args.time);
}

/// Of the time loop of a run with so many rows; `most` is what the parallel region has.
template <typename T>
std::int64_t loop_threads(const Sequence<T>& sequence, std::int64_t rows, std::int64_t most) {
  const Sizes& sizes = sequence.sizes;
  const std::int64_t sums = sizes.directions * sizes.gates * sizes.hidden;
  const std::int64_t useful =
      useful_threads(2 * rows * sums * (sizes.max_input + sizes.output), most);
  // Sums over units are a thread's own.
  return sizes.norms ? std::min(useful, rows) : useful;
}

/// The units that a range of panels holds.
inline Range units_of(const Range& panels, std::int64_t units) {
  return {std::min(panels.begin * kPanel, units), std::min(panels.end * kPanel, units)};
}

/// The same with the padding, which stays finite in whatever has whole panels.
inline Range padded_units_of(const Range& panels) {
  return {panels.begin * kPanel, panels.end * kPanel};
}

/// Calls body with a few panels at a time, forwards in even steps and backwards in odd ones: what a
/// step read last, the next reads first, so that weights too large for a cache still hit it with
/// the part that fits. Always in the same order they would all be gone.
template <typename Body>
void for_panels(std::int64_t step, const Range& panels, const Body& body) {
  constexpr std::int64_t kPanelsAtOnce = 4;
  const std::int64_t count = (panels.size() + kPanelsAtOnce - 1) / kPanelsAtOnce;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = step % 2 == 0 ? i : count - 1 - i;
    const std::int64_t begin = panels.begin + at * kPanelsAtOnce;
    body(Range{begin, std::min(begin + kPanelsAtOnce, panels.end)});
  }
}

/// to[row, :] = from[row, :] converted, or zero if `from` is null, for units; lanes beyond them, up
/// to the end of the last panel, become zero where `to` has whole panels.
template <typename To, typename From>
void copy_units(To* to, std::int64_t to_stride, const From* from, std::int64_t from_stride,
                const Range& rows, const Range& units, std::int64_t pad_to) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    To* target = to + row * to_stride;
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
      target[unit] = from ? static_cast<To>(from[row * from_stride + unit]) : To(0);
    }
    for (std::int64_t unit = units.end; unit < pad_to; ++unit) target[unit] = To(0);
  }
}

/// Multiplies values [row0.., width] of one time step and row by the dropout mask.
template <typename T>
void apply_dropout(T* values, std::int64_t width, const runtime::DropoutKey& key, double rate,
                   std::uint32_t row_id, std::uint32_t t);

/// The key of the mask on the output of a layer.
inline runtime::DropoutKey dropout_of(const ForwardArgs& args, std::int64_t layer) {
  return args.dropout.shifted(static_cast<std::uint32_t>(layer)).key();
}

inline std::uint32_t row_id_of(const ForwardArgs& args, std::int64_t row) {
  const auto* ids = args.row_ids.data_as<const std::int32_t>();
  return static_cast<std::uint32_t>(ids ? ids[row] : row);
}

}  // namespace sluice::kernels::recurrent::cpu
