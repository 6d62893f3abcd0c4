#include "kernels/crf/cpu/transition_gradient.h"

#include <algorithm>
#include <cmath>

#include "kernels/crf/cpu/log_sums.h"

namespace sluice::kernels::crf::cpu {
namespace {

/// The sums for the transitions from label `from`, over steps in rising order: `product` of the
/// factors, `rest` of all else.
template <typename T>
void add_up(const Scores<T>& s, const Workspace& workspace, const std::int32_t* targets,
            std::int64_t from, double* product, double* rest) {
  std::fill(product, product + s.labels, 0.0);
  std::fill(rest, rest + s.labels, 0.0);
  for (std::int64_t t = 1; t < s.time; ++t) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
      if (t >= s.length(row)) continue;
      const std::int64_t n = t * s.rows + row;
      const double left = workspace.forward[n * s.labels + from];
      const double* right = workspace.backward + n * s.labels;
      if (workspace.direct[n] == 0) {
        for (std::int64_t j = 0; j < s.labels; ++j) product[j] += left * right[j];
      } else {
        for (std::int64_t j = 0; j < s.labels; ++j) {
          rest[j] += std::exp(left + s.transition(from, j) + right[j]);
        }
      }
      if (targets[n - s.rows] == from) rest[targets[n]] -= 1;
    }
  }
}

}  // namespace

template <typename T>
void keep_factors(const Scores<T>& s, const Workspace& workspace, std::int64_t t, std::int64_t row,
                  const double* before, const double* after, double log_z) {
  constexpr double kLargestExponent = 600;  // exp of it times any number of steps is finite
  double* left = workspace.forward + s.cell(t, row);
  double* right = workspace.backward + s.cell(t, row);
  const double largest = largest_of(before, s.labels);
  const double factor = largest + *workspace.largest - log_z;
  const double exponent = factor + largest_of(after, s.labels);
  const bool fits = std::isfinite(exponent) && exponent <= kLargestExponent;
  workspace.direct[t * s.rows + row] = fits ? 0 : 1;
  for (std::int64_t j = 0; j < s.labels; ++j) {
    right[j] = fits ? std::exp(after[j] + factor) : after[j] - log_z;
    left[j] = fits ? std::exp(before[j] - largest) : before[j];
  }
}

template <typename T>
void add_transition_gradient(const Scores<T>& s, const Workspace& workspace,
                             const std::int32_t* targets, double scale, T* gradient) {
#pragma omp parallel for schedule(static) if (s.worth_threads())
  for (std::int64_t from = 0; from < s.labels; ++from) {
    double* product = workspace.sums + 2 * from * s.labels;
    double* rest = product + s.labels;
    add_up(s, workspace, targets, from, product, rest);
    const double* weights = workspace.weights + from * s.labels;
    T* d = gradient + from * s.labels;
    for (std::int64_t j = 0; j < s.labels; ++j) {
      d[j] += static_cast<T>(scale * (product[j] * weights[j] + rest[j]));
    }
  }
}

template void keep_factors(const Scores<float>&, const Workspace&, std::int64_t, std::int64_t,
                           const double*, const double*, double);
template void keep_factors(const Scores<double>&, const Workspace&, std::int64_t, std::int64_t,
                           const double*, const double*, double);
template void add_transition_gradient(const Scores<float>&, const Workspace&, const std::int32_t*,
                                      double, float*);
template void add_transition_gradient(const Scores<double>&, const Workspace&, const std::int32_t*,
                                      double, double*);

}  // namespace sluice::kernels::crf::cpu
