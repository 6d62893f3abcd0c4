#pragma once

#include <memory>

#include "data/labels.h"
#include "metrics/entity_f1.h"
#include "training/answer_scorer.h"

namespace sluice::training {

/// How a tagger's best labels compare with the right ones: F1, precision and recall of entities.
class TaggerScorer final : public AnswerScorer {
 public:
  explicit TaggerScorer(std::shared_ptr<const data::Labels> labels) : labels_(std::move(labels)) {}

  void add(const Context& context, const runtime::Arena& arena, models::TrainingPlan& plan,
           const data::Batch& batch) override;
  std::optional<std::vector<double>> finish(const Context& context, const models::Model& model,
                                            const std::atomic<bool>* stop,
                                            const base::Watch& watch) override;

 private:
  std::shared_ptr<const data::Labels> labels_;
  metrics::EntityF1 entities_;
};

}  // namespace sluice::training
