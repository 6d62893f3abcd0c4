#include "decoding/weight_color.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::decoding {
namespace {

constexpr std::array<Color, 3> kStops{{{255, 255, 255}, {66, 146, 198}, {8, 48, 107}}};

}  // namespace

Color weight_color(double weight) {
  const double place = (weight > 0 ? std::min(weight, 1.0) : 0.0) * (kStops.size() - 1);
  const auto lower = std::min(static_cast<std::size_t>(place), kStops.size() - 2);
  const double part = place - static_cast<double>(lower);
  const auto mix = [&](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * part));
  };
  const Color &a = kStops[lower], &b = kStops[lower + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

}  // namespace sluice::decoding
