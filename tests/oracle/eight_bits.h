#pragma once

#include <cstdint>
#include <vector>

#include "oracle/rounding.h"

namespace sluice::oracle {

/// Rows of a matrix [rows, columns] as products of 8-bit integers see them: each element becomes
/// the nearest of the 255 multiples of its row's largest magnitude / 127, ties to even.
std::vector<double> in_eight_bits(int64_t rows, int64_t columns, const double* values,
                                  Rounding* rounding = nullptr);

}  // namespace sluice::oracle
