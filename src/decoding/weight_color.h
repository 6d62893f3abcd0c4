#pragma once

#include <cstdint>

namespace sluice::decoding {

struct Color {
  std::uint8_t red, green, blue;
};

/// Of a weight in [0, 1], what is outside taken as its nearest end: white to dark blue, in even
/// steps of lightness, readable in grey as well.
Color weight_color(double weight);

}  // namespace sluice::decoding
