#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/buffer.h"
#include "runtime/context.h"

namespace sluice::training {

using runtime::Context;
using runtime::Tensor;

/// What a training step leaves on the device, valid until the next step.
struct StepSums {
  /// float64 [kernels::loss::kSums], over the batch's target tokens; of several ranks [ranks,
  /// kernels::loss::kSums], each over its rows, zero of those that this rank heard nothing of.
  Tensor loss;
  Tensor gradient_squares;  ///< float64 [1]: the squared norm of the gradients, before clipping
  Tensor loss_scale = {};   ///< float64 [kernels::optimizer::kLossScaleNumbers] after it; or absent
  bool of_all = true;       ///< whether the loss of other ranks is there
};

/// One of several ranks' share in a report.
struct RankReport {
  std::int64_t target_tokens = 0;
  double loss = 0;  ///< sum over its target tokens
  // Where ranks are asynchronous (SharedParameters):
  std::int64_t steps = 0;
  double staleness = 0;  ///< sum over its steps, of the mean over parts
  std::int64_t dropped = 0;

  RankReport& operator+=(const RankReport& more);
};

/// A report of a training step or, where ranks don't step together, of their steps since the last
/// report.
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
  std::int64_t skipped_steps = 0;      ///< by loss scaling, in the run so far
  std::vector<RankReport> ranks = {};  ///< of several ranks, by rank
};

/// Keeps the sums of steps on the device and reads many at once, late, so that no step waits.
class StepLog {
 public:
  /// Steps between two reads at most, if no more are asked for.
  static constexpr std::int64_t kCapacity = 32;

  /// A loss of more than `most_nll` a target token is one of a run that has diverged. Sums are of
  /// so many ranks.
  explicit StepLog(const Context& context,
                   double most_nll = std::numeric_limits<double>::infinity(),
                   std::int64_t ranks = 1, std::int64_t capacity = kCapacity);

  /// Queues copies of what a step left; `report` lacks the numbers that they hold. The log must not
  /// be full.
  void push(const Context& context, const StepReport& report, const StepSums& sums);
  /// Adds up the sums of ranks that stepped apart, of all steps since the last time. All ranks must
  /// call it after the same step.
  void share(const Context& context, distributed::Communicator& ranks);
  /// Whether so many more steps have no room.
  bool is_full(std::int64_t more = 1) const { return std::ssize(pending_) + more > capacity_; }
  bool is_empty() const { return pending_.empty(); }

  /// Waits for the device and hands out the completed reports, in order. Throws
  /// ErrorCode::kNumeric at the first step whose loss is above the bound or whose loss or gradient
  /// is not finite; with loss scaling, whose loss is not or whose scale has fallen below 1.
  void read(const Context& context, const std::function<void(const StepReport&)>& use);

 private:
  double most_nll_;
  std::int64_t ranks_, capacity_;
  std::int64_t shared_ = 0;  ///< steps that are pending and whose sums are of all ranks
  runtime::Buffer memory_;
  Tensor losses_;   ///< float64 [capacity, ranks, kernels::loss::kSums]
  Tensor numbers_;  ///< float64 [capacity, further numbers of a step]
  std::vector<StepReport> pending_;
};

}  // namespace sluice::training
