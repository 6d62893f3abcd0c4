#include "decoding/length_limits.h"

#include <algorithm>
#include <cmath>

#include "decoding/option_checks.h"

namespace sluice::decoding {

void LengthLimits::check_lengths() const {
  check_range("max_length", max_length, 1, kLongest);
  SLUICE_CHECK(min_length >= 0 && min_length <= max_length,
               "min_length is {}; it must be in 0..{}, which is max_length", min_length,
               max_length);
  check_range("max_length_factor", max_length_factor);
  check_range("max_length_offset", max_length_offset, 0, kLongest);
}

std::int64_t LengthLimits::max_length_for(std::int64_t source_length) const {
  const double wanted = std::floor(max_length_factor * static_cast<double>(source_length)) +
                        static_cast<double>(max_length_offset);
  const double bounded = std::min(wanted, static_cast<double>(max_length));
  return std::max({std::int64_t{1}, min_length, static_cast<std::int64_t>(bounded)});
}

}  // namespace sluice::decoding
