#include "oracle/layer_norm.h"

#include <cmath>
#include <vector>

namespace sluice::oracle {
namespace {

constexpr double kEpsilon = 1e-5;

struct Moments {
  double mean, deviation;
};

Moments moments_of(int64_t count, const double* x) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < count; ++i) mean += x[i] / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(count);
  return {mean, std::sqrt(variance + kEpsilon)};
}

}  // namespace

void normalize(int64_t count, const double* x, double* y) {
  const Moments moments = moments_of(count, x);
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - moments.mean) / moments.deviation;
}

void normalize_backward(int64_t count, const double* x, const double* dy, double* dx) {
  const Moments moments = moments_of(count, x);
  double sum = 0, product = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += dy[i];
    product += dy[i] * (x[i] - moments.mean) / moments.deviation;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double y = (x[i] - moments.mean) / moments.deviation;
    dx[i] = (dy[i] - (sum + y * product) / static_cast<double>(count)) / moments.deviation;
  }
}

}  // namespace sluice::oracle
