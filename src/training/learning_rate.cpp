#include "training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice::training {

double LearningRate::at(std::int64_t step) const {
  const double full = config_.learning_rate;
  const double least = config_.min_learning_rate;
  const auto warmup = static_cast<double>(config_.warmup_steps);
  // Warm-up may be below the least rate; only what a schedule takes away is bounded.
  const auto lowered = [least](double rate, double factor) {
    return std::max(rate * factor, std::min(rate, least));
  };
  const bool plateau = config_.schedule == "plateau";
  if (step <= config_.warmup_steps) {
    const double rate = full * (static_cast<double>(step) / warmup);
    return plateau ? lowered(rate, state_.factor) : rate;
  }
  if (plateau) return lowered(full, state_.factor);
  if (config_.schedule == "inverse_sqrt") {
    return full * std::sqrt(warmup / static_cast<double>(step));
  }
  const std::int64_t since = step - config_.warmup_steps;
  if (config_.schedule == "cosine") {
    if (since >= config_.decay_steps) return least;
    const double share = static_cast<double>(since) / static_cast<double>(config_.decay_steps);
    return least + (full - least) * (1 + std::cos(std::numbers::pi * share)) / 2;
  }
  if (config_.schedule == "step") {
    const std::int64_t decays = (since - 1) / config_.decay_steps;
    return lowered(full, std::pow(config_.decay_factor, static_cast<double>(decays)));
  }
  return full;
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
