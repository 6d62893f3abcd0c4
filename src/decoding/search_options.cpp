#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "decoding/search.h"

namespace sluice::decoding {
namespace {

constexpr std::int64_t kMostBeams = 4096;
constexpr std::int64_t kLongest = 1 << 20;
constexpr double kLargest = 1e6;

void check_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  SLUICE_CHECK(value >= least && value <= most, "{} is {}; it must be in {}..{}", option, value,
               least, most);
}

void check_range(const char* option, double value) {
  SLUICE_CHECK(value >= 0 && value <= kLargest, "{} is {}; it must be a number in 0..{}", option,
               value, kLargest);
}

}  // namespace

void SearchOptions::validate() const {
  check_range("beam", beam, 1, kMostBeams);
  SLUICE_CHECK(nbest >= 1 && nbest <= beam,
               "nbest is {}; with beam {} it must be in 1..{}, or take a wider beam", nbest, beam,
               beam);
  check_range("length_penalty", length_penalty);
  check_range("max_length", max_length, 1, kLongest);
  SLUICE_CHECK(min_length >= 0 && min_length <= max_length,
               "min_length is {}; it must be in 0..{}, which is max_length", min_length,
               max_length);
  check_range("max_length_factor", max_length_factor);
  check_range("max_length_offset", max_length_offset, 0, kLongest);
  check_range("poll_every", poll_every, 0, kLongest);
}

std::int64_t SearchOptions::max_length_for(std::int64_t source_length) const {
  const double wanted = std::floor(max_length_factor * static_cast<double>(source_length)) +
                        static_cast<double>(max_length_offset);
  const double bounded = std::min(wanted, static_cast<double>(max_length));
  return std::max({std::int64_t{1}, min_length, static_cast<std::int64_t>(bounded)});
}

}  // namespace sluice::decoding
