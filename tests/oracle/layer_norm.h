#pragma once

#include <cstdint>

namespace sluice::oracle {

/// Layer normalisation (Ba et al. 2016) before its gain: y = (x - mean) / sqrt(variance + 1e-5) of
/// `count` values. y may be x.
void normalize(int64_t count, const double* x, double* y);

/// dx = the gradient of x for that of y, dy; dx may be dy.
void normalize_backward(int64_t count, const double* x, const double* dy, double* dx);

}  // namespace sluice::oracle
