#pragma once

#include <cstdint>

#include "training/train_config.h"

namespace sluice::training {

/// How likely a step of training feeds a model its own prediction in place of a target (Bengio et
/// al., "Scheduled sampling for sequence prediction with recurrent neural networks", NIPS 2015). A
/// function of the step alone.
class ScheduledSampling {
 public:
  ScheduledSampling() = default;
  explicit ScheduledSampling(const SamplingConfig& config) : config_(config) {}

  bool is_used() const { return config_.schedule != "none"; }
  /// Whether predictions are drawn by their probability, not the likeliest ones.
  bool draws() const { return config_.draw; }
  /// The probability in a step, counted from 1. With i = step - 1 and k = sampling_steps,
  ///   linear           i / k
  ///   exponential      1 - exp(-i / k)
  ///   inverse_sigmoid  1 - k / (k + exp(i / k))
  /// and never more than sampling_max; 0 with none.
  double at(std::int64_t step) const;

 private:
  SamplingConfig config_;
};

}  // namespace sluice::training
