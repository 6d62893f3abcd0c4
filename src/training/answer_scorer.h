#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/watch.h"
#include "data/examples.h"
#include "models/model.h"

namespace sluice::training {

using runtime::Context;

/// Measures a model's answers to the examples of one validation: what the sums of the loss don't
/// tell.
class AnswerScorer {
 public:
  virtual ~AnswerScorer() = default;

  /// `plan` has just evaluated `batch` of the examples (batch.global_row), so its answers are there
  /// to be read.
  virtual void add(const Context& context, const runtime::Arena& arena, models::TrainingPlan& plan,
                   const data::Batch& batch);
  /// After all batches: the values of the kind's metrics that aren't of sums (Task::metrics), in
  /// their order. Absent once `*stop` is true (`stop` may be null). `watch` is told of a search.
  virtual std::optional<std::vector<double>> finish(const Context& context,
                                                    const models::Model& model,
                                                    const std::atomic<bool>* stop,
                                                    const base::Watch& watch) = 0;
};

inline void AnswerScorer::add(const Context&, const runtime::Arena&, models::TrainingPlan&,
                              const data::Batch&) {}

}  // namespace sluice::training
