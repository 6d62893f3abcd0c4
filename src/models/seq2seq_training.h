#pragma once

#include <memory>

#include "models/seq2seq.h"
#include "models/token_scorer.h"

namespace sluice::models {

/// The plan of a Seq2Seq (TrainingPlan says what its calls do). It evaluates by `evaluate` and
/// `score`.
class Seq2SeqTraining final : public TrainingPlan, public TokenScorer {
 public:
  /// As Model::training_plan.
  Seq2SeqTraining(const Context& context, const Seq2Seq& model, runtime::ArenaPlanner& planner,
                  const Extent& capacity, bool training);
  ~Seq2SeqTraining() override;

  Tensor evaluate(const Context& context, const runtime::Arena& arena, const Batch& batch,
                  const Pass& pass) override;
  Tensor forward_backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                          const Pass& pass) override;
  Tensor sums(const runtime::Arena& arena) const override;
  std::string implementations() const override;
  std::string explain() const override;

  Tensor score(const Context& context, const runtime::Arena& arena, const Batch& batch) override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
