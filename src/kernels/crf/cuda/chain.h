#pragma once

#include <cmath>

#include "kernels/crf/cuda/scores.h"
#include "runtime/cuda/reduce.h"

/// Steps along one row's chain by a team of threads, each of which has every kSize-th label.
namespace sluice::kernels::crf::cuda {

using runtime::cuda::Add;
using runtime::cuda::Team;

/// NaN if there is one.
struct LargestOrNan {
  __device__ double operator()(double a, double b) const { return ::isnan(a) || a > b ? a : b; }
};

struct Lower {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

/// Arrays of a step, [labels] each, in shared memory.
struct StepMemory {
  double* current;  ///< what the last step gave
  double* next;     ///< what this one gives
  double* powers;

  __device__ StepMemory(double* memory, int labels)
      : current(memory), next(memory + labels), powers(memory + 2 * labels) {}
  __device__ void swap() {
    double* kept = current;
    current = next;
    next = kept;
  }
};
inline constexpr int kStepArrays = 3;

/// log of the sum of exp(values(0)) .. exp(values(count - 1)), by one thread.
template <typename Values>
__device__ double log_sum(int count, const Values& values) {
  double largest = values(0);
  for (int i = 1; i < count; ++i) largest = LargestOrNan{}(values(i), largest);
  if (largest == -INFINITY) return largest;
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += ::exp(values(i) - largest);
  return largest + ::log(sum);
}

/// The same by the team, of values(j) for each label.
template <int kSize, typename Values>
__device__ double team_log_sum(const Team<kSize>& team, int count, const Values& values) {
  double largest = -INFINITY;
  for (int j = team.rank; j < count; j += kSize) largest = LargestOrNan{}(values(j), largest);
  largest = team.reduce(largest, LargestOrNan{});
  if (largest == -INFINITY) return largest;
  double sum = 0;
  for (int j = team.rank; j < count; j += kSize) sum += ::exp(values(j) - largest);
  return largest + ::log(team.reduce(sum, Add{}));
}

/// The step from all labels to all labels, in logarithms: as the cpu leaf takes it, by a product
/// with `weights` [from, to] = exp(transition - largest transition) where that has its bits, else
/// as it stands.
template <typename Transition>
struct LogStep {
  int labels;
  const double* weights;
  double largest_transition;
  Transition transition;

  /// Calls take(j, log of the sum over i of exp(current[i] + transition(i, j))) for this thread's
  /// labels. `current` must be there for all threads; what `take` writes isn't yet.
  template <int kSize, typename Take>
  __device__ void operator()(const Team<kSize>& team, const StepMemory& memory,
                             const Take& take) const {
    constexpr double kSmall = 1e-250;
    double largest = -INFINITY;
    for (int i = team.rank; i < labels; i += kSize) {
      largest = LargestOrNan{}(memory.current[i], largest);
    }
    largest = team.reduce(largest, LargestOrNan{});
    for (int i = team.rank; i < labels; i += kSize) {
      memory.powers[i] = ::exp(memory.current[i] - largest);
    }
    team.sync();
    for (int j = team.rank; j < labels; j += kSize) {
      double sum = 0;
      for (int i = 0; i < labels; ++i) sum += memory.powers[i] * weights[i * labels + j];
      take(j, sum >= kSmall
                  ? (largest + largest_transition) + ::log(sum)
                  : log_sum(labels, [&](int i) { return memory.current[i] + transition(i, j); }));
    }
  }
};

/// The lowest label with the largest values(j), and that value.
template <int kSize, typename Values>
__device__ int first_largest(const Team<kSize>& team, int labels, const Values& values,
                             double& largest) {
  double own = -INFINITY;
  int at = labels;
  for (int j = team.rank; j < labels; j += kSize) {
    const double value = values(j);
    if (value > own) own = value, at = j;
  }
  largest = team.reduce(own, runtime::cuda::Larger{});
  const int first = team.reduce(own == largest ? at : labels, Lower{});
  return first < labels ? first : 0;  // none is above minus infinity
}

}  // namespace sluice::kernels::crf::cuda
