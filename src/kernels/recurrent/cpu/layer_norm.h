#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/recurrent/cpu/leaf.h"

/// Layer normalisation (Ba et al. 2016) of rows that lie in panels, [panels, blocks, 16]: over all
/// blocks of `units` units. Lanes beyond the units are left out, and zero in what is written. Sums
/// have one order.
namespace sluice::kernels::recurrent::cpu {

/// Added to the variance.
inline constexpr double kNormEpsilon = 1e-5;

/// Calls body(index, lane) for all lanes that are units.
template <typename Body>
void for_units(std::int64_t units, std::int64_t blocks, const Body& body) {
  for (std::int64_t panel = 0; panel * kPanel < units; ++panel) {
    const std::int64_t lanes = units - panel * kPanel < kPanel ? units - panel * kPanel : kPanel;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = (panel * blocks + block) * kPanel;
      for (std::int64_t lane = 0; lane < lanes; ++lane) body(first + lane, lane);
    }
  }
}

/// The mean over all units of what value(index) gives.
template <typename S, typename Value>
S mean_of(std::int64_t units, std::int64_t blocks, const Value& value) {
  S sums[kPanel] = {};
  for_units(units, blocks, [&](std::int64_t i, std::int64_t lane) { sums[lane] += value(i); });
  S sum = 0;
  for (const S lane : sums) sum += lane;
  return sum / static_cast<S>(units * blocks);
}

template <typename S>
void clear_padding(std::int64_t units, std::int64_t blocks, S* row) {
  const std::int64_t inside = units % kPanel;
  if (inside == 0) return;
  S* panel = row + units / kPanel * blocks * kPanel;
  for (std::int64_t i = 0; i < blocks * kPanel; ++i) {
    if (i % kPanel >= inside) panel[i] = S(0);
  }
}

/// to = (from - mean) * the result, which is 1 / sqrt(variance + epsilon); to may be from.
template <typename S>
S normalize(std::int64_t units, std::int64_t blocks, const S* from, S* to) {
  const S mean = mean_of<S>(units, blocks, [&](std::int64_t i) { return from[i]; });
  const S variance = mean_of<S>(
      units, blocks, [&](std::int64_t i) { return (from[i] - mean) * (from[i] - mean); });
  const S inverse = S(1) / std::sqrt(variance + static_cast<S>(kNormEpsilon));
  for_units(units, blocks,
            [&](std::int64_t i, std::int64_t) { to[i] = (from[i] - mean) * inverse; });
  clear_padding(units, blocks, to);
  return inverse;
}

/// d, of what was normalised in place of the gradient of what came of it, from that and `inverse`.
template <typename S>
void normalize_backward(std::int64_t units, std::int64_t blocks, const S* normalized, S inverse,
                        S* d) {
  const S mean = mean_of<S>(units, blocks, [&](std::int64_t i) { return d[i]; });
  const S along = mean_of<S>(units, blocks, [&](std::int64_t i) { return d[i] * normalized[i]; });
  for_units(units, blocks, [&](std::int64_t i, std::int64_t) {
    d[i] = (d[i] - mean - normalized[i] * along) * inverse;
  });
  clear_padding(units, blocks, d);
}

}  // namespace sluice::kernels::recurrent::cpu
