#pragma once

#include <cstdint>

#include "training/train_config.h"

namespace sluice::training {

/// The learning rate of each step: warm-up, then what training.schedule says. A function of the
/// step and of `state()`.
class LearningRate {
 public:
  /// All that validations have changed; saved and restored to the bit with the training state.
  struct State {
    double factor = 1;  ///< what the plateau schedule has lowered the rate by
    bool has_best = false;
    double best = 0;
    std::int64_t stalled = 0;  ///< validations since the best or the last lowering

    bool operator==(const State&) const = default;
  };

  explicit LearningRate(const LearningRateConfig& config) : config_(config) {}

  /// The rate of a step, counted from 1. With w warm-up steps, a step s <= w has s/w of the full
  /// rate. From there on, for n = decay_steps,
  ///   inverse_sqrt gives sqrt(w / s) of it (Vaswani et al. 2017, section 5.3);
  ///   cosine falls from it to m = min_learning_rate, reached at step w + n and kept:
  ///     m + (rate - m) (1 + cos(pi (s - w) / n)) / 2 (Loshchilov, Hutter 2017, one period);
  ///   step multiplies it by decay_factor after every n steps;
  ///   plateau lowers it as validated() says.
  /// Neither of the last two goes below min_learning_rate.
  double at(std::int64_t step) const;

  /// Tells the plateau schedule the result of a validation; the lower the better. After
  /// plateau_patience results in a row that are no better than the best, the rate is lowered.
  void validated(double metric);

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  LearningRateConfig config_;
  State state_;
};

}  // namespace sluice::training
