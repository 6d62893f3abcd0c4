#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace sluice::checking {

/// How far the numbers of one run may be from those of exact arithmetic, for one layer of sums of
/// products, as a share of the layer's numbers.
struct Rounding {
  double stored = 0;  ///< where a number is stored: half the distance of neighbours, at most
  double sums = 0;    ///< where sums of products are made: of factors, and of the sums themselves
};

Rounding rounding_of(const runtime::Precision& precision);
/// Of numbers that somebody stored in this type, after sums in float32.
Rounding rounding_of(runtime::DType dtype);

/// What two runs may differ by (LayerCheck::tolerance) after so many layers of sums; 0: inputs and
/// embeddings, which are only stored.
double tolerance_of(const Rounding& one, const Rounding& other, std::int64_t sums);

}  // namespace sluice::checking
