#pragma once

#include <cstdint>

#include "kernels/crf/cpu/scores.h"
#include "kernels/crf/workspace.h"

namespace sluice::kernels::crf::cpu {

/// Splits the probability of each pair of labels at t - 1 and t > 0 of a row into two factors, so
/// that its sum over all steps becomes a product of matrices:
///   exp(before[i] + transition(i, j) + after[j] - log_z) = left[i] * weights[i, j] * right[j]
/// `before` are the row's log-sums up to t - 1, `after` those from t on. The factors take the place
/// of the step's log-sums in the workspace. A step whose factors a double can't hold, as happens
/// with transitions that are hundreds apart, is marked to be summed up as it stands.
template <typename T>
void keep_factors(const Scores<T>& scores, const Workspace& workspace, std::int64_t t,
                  std::int64_t row, const double* before, const double* after, double log_z);

/// Adds scale * (expected - observed transitions) to `gradient` [labels, labels], from the factors
/// of all steps.
template <typename T>
void add_transition_gradient(const Scores<T>& scores, const Workspace& workspace,
                             const std::int32_t* targets, double scale, T* gradient);

}  // namespace sluice::kernels::crf::cpu
