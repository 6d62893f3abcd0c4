#include "checking/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace sluice::checking {
namespace {

/// Calls use(step, row, unit, index) for every number that is not padding.
template <typename Use>
void for_each_number(const LayerValues& layer, const Use& use) {
  for (std::int64_t step = 0; step < layer.steps; ++step) {
    for (std::int64_t row = 0; row < layer.rows; ++row) {
      if (step >= layer.lengths[static_cast<std::size_t>(row)]) continue;
      const auto begin = static_cast<std::size_t>((step * layer.rows + row) * layer.width);
      for (std::int64_t unit = 0; unit < layer.width; ++unit) {
        use(step, row, unit, begin + static_cast<std::size_t>(unit));
      }
    }
  }
}

/// Infinite if a number is not finite and the other is not the same.
double difference_of(double value, double reference) {
  if (value == reference || (std::isnan(value) && std::isnan(reference))) return 0;
  const double difference = std::abs(value - reference);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

}  // namespace

Comparison::Sums& Comparison::sums_of(const LayerValues& value) {
  const auto found = std::ranges::find_if(
      layers_, [&](const Sums& sums) { return sums.check.name == value.name; });
  if (found != layers_.end()) return *found;
  Sums& made = layers_.emplace_back();
  made.check.name = value.name;
  made.check.tolerance = tolerance_(value);
  return made;
}

void Comparison::add(const LayerValues& value, const LayerValues& reference,
                     std::span<const std::int64_t> inputs) {
  SLUICE_ASSERT(value.values.size() == reference.values.size() && value.rows == reference.rows &&
                value.width == reference.width && std::ssize(inputs) == value.rows);
  Sums& sums = sums_of(value);
  double squares = 0;
  std::int64_t finite = 0;
  for_each_number(value, [&](auto, auto, auto, std::size_t i) {
    const double number = reference.values[i];
    if (!std::isfinite(number)) return;
    squares += number * number;
    ++finite;
  });
  sums.squares += squares;
  const double scale = finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
  for_each_number(value,
                  [&](std::int64_t step, std::int64_t row, std::int64_t unit, std::size_t i) {
                    Pair pair{{step, inputs[static_cast<std::size_t>(row)], unit, value.values[i],
                               reference.values[i]},
                              step,
                              0};
                    const bool is_backward = value.directions == 2 && unit >= value.width / 2;
                    if (is_backward)
                      pair.step = value.lengths[static_cast<std::size_t>(row)] - 1 - step;
                    pair.bound = sums.check.tolerance * (scale + std::abs(pair.place.reference));
                    add(sums, pair);
                  });
}

void Comparison::add(Sums& sums, const Pair& pair) {
  LayerCheck& check = sums.check;
  ++check.values;
  const LayerPlace& place = pair.place;
  const double difference = difference_of(place.value, place.reference);
  if (difference == 0) return;
  if (std::isfinite(difference)) sums.differences += difference;
  if (difference > check.largest) {
    check.largest = difference;
    check.largest_at = place;
  }
  // A bound is not finite if the reference is not.
  if (difference <= pair.bound && std::isfinite(difference)) return;
  ++check.beyond;
  const auto order = [](std::int64_t step, const LayerPlace& at) {
    return std::tuple(step, at.row, at.unit);
  };
  if (check.first && order(sums.first_step, *check.first) <= order(pair.step, place)) return;
  check.first = place;
  sums.first_step = pair.step;
}

std::vector<LayerCheck> Comparison::layers() const {
  std::vector<LayerCheck> checks;
  for (const Sums& sums : layers_) {
    LayerCheck check = sums.check;
    if (check.values > 0) {
      check.mean = sums.differences / static_cast<double>(check.values);
      check.scale = std::sqrt(sums.squares / static_cast<double>(check.values));
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace sluice::checking
