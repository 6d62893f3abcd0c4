#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "data/batches.h"
#include "model_files/batch_upload.h"
#include "model_files/plan_cache.h"
#include "models/model.h"
#include "runtime/graph_cache.h"
#include "training/optimizer.h"
#include "training/ranks/gradient_exchange.h"
#include "training/ranks/shared_parameters.h"
#include "training/ranks/whole_step.h"
#include "training/scheduled_sampling.h"
#include "training/step_log.h"

namespace sluice::training {

using model_files::BatchUpload;
using model_files::PlanCache;
using model_files::StepNumbers;
using model_files::UploadedStep;

/// Training steps of a model: each clears the gradients, brings a batch to the device and runs
/// forward and backward, or several batches one after another, and lets the optimiser step. Nothing
/// waits for the device.
class TrainingStep {
 public:
  struct Options {
    double label_smoothing = 0;
    std::uint64_t seed = 0;  ///< of dropout and scheduled sampling
    /// Whether a batch is padded to the capacity of its plan, so that all batches of a plan are one
    /// to the device. Where its stream can capture, steps are then captured and launched whole.
    bool static_shapes = false;
    /// Dynamic loss scaling (kernels/optimizer/loss_scale.h), without which float16 loses
    /// gradients.
    bool loss_scaling = false;
    ScheduledSampling sampling = {};
    /// All ranks of the run; null without ranks. Must outlive the step.
    distributed::Communicator* ranks = nullptr;
    ExchangeOptions exchange = {};
  };

  /// `model` must be allocated with gradients and outlive this; a run's precision is `context`'s.
  TrainingStep(const Context& context, const models::Model& model, const OptimizerConfig& optimizer,
               const Options& options);

  /// Queues a step; `step` counts from 1, keys dropout and corrects Adam's bias. The gradients of
  /// several batches are added up to those of one batch of all their rows, but for the order of
  /// sums. A captured step computes what the others do, to the bit.
  StepSums run(const Context& context, std::span<const data::Batch> batches, std::int64_t step,
               double learning_rate);
  /// The same of this rank's rows of batches (dealt_rows.h), which `whole` knows. All ranks must
  /// run it, with batches of the same extents, and get the sums of all.
  StepSums run_together(const Context& context, std::span<const data::Batch> batches,
                        std::int64_t step, double learning_rate, const WholeStep& whole);
  /// Steps this rank's own parameters or, if `shared` is not null, those that all ranks share. The
  /// gradient is a mean over so many targets. Others learn nothing of it.
  StepSums run_apart(const Context& context, std::span<const data::Batch> batches,
                     std::int64_t step, double learning_rate, double target_tokens,
                     SharedParameters* shared);

  /// Where each rank steps a part of the parameters: gives all ranks the moments of all, or the
  /// gradients of the last step. All ranks must call it.
  void gather_moments(const Context& context) const;
  void gather_gradients(const Context& context) const;
  /// To save and to load its moments.
  const Optimizer& optimizer() const { return optimizer_; }
  /// Whose plans evaluate, too, with the memory of those that train.
  PlanCache& plans() { return plans_; }
  /// Steps, and batches of steps that have several, that are kept captured.
  std::size_t graphs() const { return graphs_.graphs(); }

 private:
  /// Queues what turns gradients into a step.
  using Update = std::function<void(const UploadedStep& uploaded)>;

  StepSums run(const Context& context, std::span<const data::Batch> batches,
               const StepNumbers& numbers);
  Tensor run_whole(const Context& context, const data::Batch& batch, const StepNumbers& numbers);
  Tensor run_one_by_one(const Context& context, std::span<const data::Batch> batches,
                        const StepNumbers& numbers, const Update& update);
  StepNumbers numbers_of(std::int64_t step, double learning_rate, double target_tokens) const;
  StepSums sums_of(const Context& context, const Tensor& own) const;
  std::int64_t ranks() const;
  UploadedStep upload(const Context& context, const data::Batch& batch, const StepNumbers& numbers);
  void forward_backward(const Context& context, models::TrainingPlan& plan,
                        const UploadedStep& uploaded);
  void zero_gradients(const Context& context) const;
  void queue(const Context& context, const models::Extent& extent, bool whole_step,
             const std::function<void()>& work);
  runtime::GraphKey key_of(const Context& context, const models::Extent& extent,
                           bool whole_step) const;

  const models::Model* model_;
  Options options_;
  std::optional<GradientExchange> exchange_;
  Optimizer optimizer_;
  PlanCache plans_;
  BatchUpload upload_;
  runtime::GraphCache graphs_;
  runtime::Buffer sums_memory_;
  Tensor sums_;       ///< float64 [kernels::loss::kSums], over several batches
  Tensor rank_sums_;  ///< float64 [ranks, kernels::loss::kSums]
};

}  // namespace sluice::training
