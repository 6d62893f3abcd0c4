#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::training {

using runtime::Context;
using runtime::Tensor;

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
  double gradient_norm = 0;  ///< before clipping
};

/// Keeps the sums of steps on the device and reads many at once, late, so that no step waits.
class StepLog {
 public:
  /// Steps between two reads at most.
  static constexpr std::int64_t kCapacity = 32;

  explicit StepLog(const Context& context);

  /// Queues copies of a step's sums (float64 [kernels::loss::kSums] and [1]); `report` lacks the
  /// numbers that they hold. The log must not be full.
  void push(const Context& context, const StepReport& report, const Tensor& sums,
            const Tensor& sum_of_squares);
  bool is_full() const { return std::ssize(pending_) == kCapacity; }
  bool is_empty() const { return pending_.empty(); }

  /// Waits for the device and hands out the completed reports, in order. Throws
  /// ErrorCode::kNumeric at the first step whose loss or gradient is not finite.
  void read(const Context& context, const std::function<void(const StepReport&)>& use);

 private:
  runtime::Buffer memory_;
  Tensor values_;  ///< float64 [kCapacity, kSums + 1]
  std::vector<StepReport> pending_;
};

}  // namespace sluice::training
