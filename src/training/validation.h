#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/watch.h"
#include "data/batches.h"
#include "model_files/plan_cache.h"
#include "training/task.h"
#include "training/train_data.h"
#include "training/validation_report.h"

namespace sluice::training {

/// The loss of a target (kernels::loss::kNll) in the mean over these examples, without dropout, by
/// an uncounted plan. Waits for the device.
double mean_loss(const Context& context, model_files::PlanCache& plans,
                 const data::Examples& examples, std::span<const std::int64_t> rows);

/// Measures a model on examples that it isn't trained on.
class Validation {
 public:
  /// On `data.validation`, which must be there; `data` must outlive it. `metric` is the one of
  /// task.metrics() that the report's `metric` is. Throws ErrorCode::kInvalidArgument if it is of
  /// answers, but the examples don't allow to score them.
  Validation(const TrainData& data, const data::BatchOptions& batches, const Task& task,
             std::string_view metric);

  /// The model as it is after `step`; absent if `*stop` became true meanwhile (`stop` may be null).
  /// `watch` is told how it gets on. Waits for the device. Throws ErrorCode::kNumeric for a loss
  /// that is not finite.
  std::optional<ValidationReport> run(const Context& context, const models::Model& model,
                                      model_files::PlanCache& plans, std::int64_t step,
                                      const std::atomic<bool>* stop,
                                      const base::Watch& watch = {}) const;

 private:
  bool scores_answers() const;

  const TrainData* data_;
  std::vector<data::BatchRows> batches_;
  const Task* task_;
  const ValidationMetric* metric_;
};

}  // namespace sluice::training
