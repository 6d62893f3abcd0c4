#pragma once

#include <cstdint>

namespace sluice::base {

/// The largest of 1..most for which `fits` holds, or 0 if there is none; what fits must also fit at
/// every smaller number.
template <typename Fits>
std::int64_t largest_that_fits(std::int64_t most, const Fits& fits) {
  std::int64_t fitting = 0, failing = most + 1;
  while (failing - fitting > 1) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

}  // namespace sluice::base
