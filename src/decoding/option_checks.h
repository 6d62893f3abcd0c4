#pragma once

#include <cstdint>

#include "base/check.h"

/// Checks of options of searches. Each sentence names the option and its value.
namespace sluice::decoding {

inline constexpr std::int64_t kMostRows = 4096;  ///< of one input: beams or samples
inline constexpr std::int64_t kLongest = 1 << 20;
inline constexpr double kLargest = 1e6;

inline void check_range(const char* option, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
  SLUICE_CHECK(value >= least && value <= most, "{} is {}; it must be in {}..{}", option, value,
               least, most);
}

inline void check_range(const char* option, double value) {
  SLUICE_CHECK(value >= 0 && value <= kLargest, "{} is {}; it must be a number in 0..{}", option,
               value, kLargest);
}

}  // namespace sluice::decoding
