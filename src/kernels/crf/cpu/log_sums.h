#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::kernels::crf::cpu {

/// NaN if there is one.
inline double largest_of(const double* values, std::int64_t count) {
  double largest = values[0];
  for (std::int64_t i = 1; i < count; ++i) {
    if (values[i] > largest || std::isnan(values[i])) largest = values[i];
  }
  return largest;
}

/// log of the sum of exp(values(0)) .. exp(values(count - 1))
template <typename Values>
double log_sum(std::int64_t count, const Values& values) {
  double largest = values(0);
  for (std::int64_t i = 1; i < count; ++i) {
    const double value = values(i);
    if (value > largest || std::isnan(value)) largest = value;
  }
  if (largest == -std::numeric_limits<double>::infinity()) return largest;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(values(i) - largest);
  return largest + std::log(sum);
}

/// out[j] = log of the sum over i of exp(in[i] + transition(i, j)), as a product with `weights`
/// [i, j] = exp(transition - largest transition): an exponential for each label, not for each pair.
/// Where the product is so small that its bits are few, or none, the sum is taken as it stands.
/// `powers` is scratch; the four arrays are apart.
template <typename Transition>
void log_sums(std::int64_t labels, const double* in, const double* weights,
              double largest_transition, const Transition& transition, double* powers,
              double* out) {
  constexpr double kSmall = 1e-250;
  const double largest = largest_of(in, labels);
  for (std::int64_t j = 0; j < labels; ++j) out[j] = 0;
  for (std::int64_t i = 0; i < labels; ++i) {
    powers[i] = std::exp(in[i] - largest);
    const double* row = weights + i * labels;
    for (std::int64_t j = 0; j < labels; ++j) out[j] += powers[i] * row[j];
  }
  for (std::int64_t j = 0; j < labels; ++j) {
    out[j] = out[j] >= kSmall
                 ? (largest + largest_transition) + std::log(out[j])
                 : log_sum(labels, [&](std::int64_t i) { return in[i] + transition(i, j); });
  }
}

}  // namespace sluice::kernels::crf::cpu
