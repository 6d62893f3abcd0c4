#include "training/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace sluice::training {

double LearningRate::at(std::int64_t step) const {
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(config_.warmup_steps);
  double rate = config_.learning_rate;
  if (step <= config_.warmup_steps) {
    rate *= s / warmup;
  } else if (config_.schedule == "inverse_sqrt") {
    rate *= std::sqrt(warmup / s);
  }
  if (config_.schedule != "plateau") return rate;
  // Warm-up may be below the least rate; only what the plateau takes away is bounded.
  return std::max(rate * state_.factor, std::min(rate, config_.min_learning_rate));
}

void LearningRate::validated(double metric) {
  if (config_.schedule != "plateau") return;
  if (!state_.has_best || metric < state_.best) {
    state_.has_best = true;
    state_.best = metric;
    state_.stalled = 0;
    return;
  }
  if (++state_.stalled < config_.plateau_patience) return;
  state_.stalled = 0;
  state_.factor *= config_.plateau_factor;
}

}  // namespace sluice::training
