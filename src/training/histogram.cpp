#include "training/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::training {
namespace {

constexpr std::size_t kIntervals = 64;

void set_limits(Histogram& histogram) {
  const double width = histogram.most - histogram.least;
  const std::size_t intervals = width > 0 ? kIntervals : 1;
  for (std::size_t i = 1; i < intervals; ++i) {
    histogram.limits.push_back(histogram.least + width * static_cast<double>(i) / kIntervals);
  }
  histogram.limits.push_back(histogram.most);
  histogram.counts.assign(intervals, 0);
}

}  // namespace

Histogram histogram_of(std::span<const float> numbers) {
  Histogram histogram;
  histogram.least = std::numeric_limits<double>::infinity();
  histogram.most = -histogram.least;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double value = number;
    histogram.least = std::min(histogram.least, value);
    histogram.most = std::max(histogram.most, value);
    histogram.count += 1;
    histogram.sum += value;
    histogram.squares += value * value;
  }
  if (histogram.count == 0) return {};
  set_limits(histogram);
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    // The last limit is the largest number, so one is found.
    const auto limit = std::lower_bound(histogram.limits.begin(), histogram.limits.end(),
                                        static_cast<double>(number));
    ++histogram.counts[static_cast<std::size_t>(limit - histogram.limits.begin())];
  }
  return histogram;
}

}  // namespace sluice::training
