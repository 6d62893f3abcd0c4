#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::training {

/// How often numbers fall between which limits.
struct Histogram {
  double least = 0;
  double most = 0;
  double count = 0;
  double sum = 0;
  double squares = 0;          ///< the sum of them
  std::vector<double> limits;  ///< upper ends, rising; the last one is `most`
  std::vector<double> counts;  ///< of limits[i - 1] < number <= limits[i]
};

/// Of the finite ones among `numbers`, in equal intervals from the least to the largest, or a
/// single one if they are the same. Empty if there is none.
Histogram histogram_of(std::span<const float> numbers);

}  // namespace sluice::training
