#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::training {

using runtime::Context;
using runtime::Tensor;

/// What a training step leaves on the device, valid until the next step.
struct StepSums {
  Tensor loss;              ///< float64 [kernels::loss::kSums], over the batch's target tokens
  Tensor gradient_squares;  ///< float64 [1]: the squared norm of the gradients, before clipping
  Tensor loss_scale = {};   ///< float64 [kernels::optimizer::kLossScaleNumbers] after it; or absent
};

/// What is told of a training step.
struct StepReport {
  std::int64_t epoch = 0;  ///< counted from 1
  std::int64_t step = 0;   ///< counted from 1
  double fraction = 0;     ///< of the run that is done after it; negative: not known
  std::int64_t source_tokens = 0;
  std::int64_t target_tokens = 0;
  double learning_rate = 0;
  double loss = 0;           ///< per target token, what is minimised (label smoothing included)
  double nll = 0;            ///< per target token: -log p(target), under dropout
  double gradient_norm = 0;  ///< before clipping; not finite if loss scaling skipped the step
  double loss_scale = 0;     ///< after it; 0: the loss is not scaled
  std::int64_t skipped_steps = 0;  ///< by loss scaling, in the run so far
};

/// Keeps the sums of steps on the device and reads many at once, late, so that no step waits.
class StepLog {
 public:
  /// Steps between two reads at most.
  static constexpr std::int64_t kCapacity = 32;

  /// A loss of more than `most_nll` a target token is one of a run that has diverged.
  explicit StepLog(const Context& context,
                   double most_nll = std::numeric_limits<double>::infinity());

  /// Queues copies of what a step left; `report` lacks the numbers that they hold. The log must not
  /// be full.
  void push(const Context& context, const StepReport& report, const StepSums& sums);
  bool is_full() const { return std::ssize(pending_) == kCapacity; }
  bool is_empty() const { return pending_.empty(); }

  /// Waits for the device and hands out the completed reports, in order. Throws
  /// ErrorCode::kNumeric at the first step whose loss is above the bound or whose loss or gradient
  /// is not finite; with loss scaling, whose loss is not or whose scale has fallen below 1.
  void read(const Context& context, const std::function<void(const StepReport&)>& use);

 private:
  double most_nll_;
  runtime::Buffer memory_;
  Tensor values_;  ///< float64 [kCapacity, numbers of a step]
  std::vector<StepReport> pending_;
};

}  // namespace sluice::training
