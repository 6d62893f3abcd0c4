#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace sluice::checking {

/// The error of one run against exact arithmetic, for one layer of sums of products, as a share of
/// the layer's numbers.
struct Rounding {
  double stored = 0;  ///< of storing a number: at most half the distance of its neighbours
  double sums = 0;    ///< of a sum of products: rounding of its factors and of the sum itself
};

Rounding rounding_of(const runtime::Precision& precision);
/// The rounding of numbers that another program stored in this type, after sums in float32.
Rounding rounding_of(runtime::DType dtype);

/// LayerCheck::tolerance of two runs after so many layers of sums; 0: inputs and embeddings, which
/// are only stored.
double tolerance_of(const Rounding& one, const Rounding& other, std::int64_t sums);

}  // namespace sluice::checking
