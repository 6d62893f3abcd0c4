#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "random_values.h"

namespace sluice::oracle {

/// Compares a gradient with central differences of loss(), which reads `values`, at up to 12 places
/// drawn at random. With step e = 1e-5 the difference is off by O(e^2) = 1e-10 times the third
/// derivative, and by rounding of the loss, 1e-16 |loss| / e = 1e-11 |loss|; losses here are below
/// 100 and tanh and sigmoid are tame, so 1e-7 holds with margin.
inline void expect_gradient(const std::string& name, std::vector<double>& values,
                            const std::vector<double>& gradient,
                            const std::function<double()>& loss, RandomValues& random) {
  ASSERT_EQ(values.size(), gradient.size()) << name;
  if (values.empty()) return;
  const double step = 1e-5;
  for (size_t n = 0; n < std::min<size_t>(12, values.size()); ++n) {
    const int64_t i = random.integer(0, static_cast<int64_t>(values.size()) - 1);
    const double kept = values[i];
    values[i] = kept + step;
    const double above = loss();
    values[i] = kept - step;
    const double below = loss();
    values[i] = kept;
    const double difference = (above - below) / (2 * step);
    EXPECT_NEAR(gradient[i], difference, 1e-7 * std::max(1.0, std::abs(difference)))
        << name << "[" << i << "]";
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace sluice::oracle
