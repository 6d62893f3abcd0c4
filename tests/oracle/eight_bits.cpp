#include "oracle/eight_bits.h"

#include <algorithm>
#include <cmath>

namespace sluice::oracle {

std::vector<double> in_eight_bits(int64_t rows, int64_t columns, const double* values,
                                  Rounding* rounding) {
  std::vector<double> rounded(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    const double* from = values + row * columns;
    double most = 0;
    for (int64_t i = 0; i < columns; ++i) most = std::max(most, std::abs(from[i]));
    const double scale = most / 127;
    for (int64_t i = 0; i < columns && scale > 0; ++i)
      rounded[row * columns + i] =
          std::nearbyint(from[i] / scale + (rounding ? rounding->shift_of_integer() : 0)) * scale;
  }
  return rounded;
}

}  // namespace sluice::oracle
