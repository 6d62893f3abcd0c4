#pragma once

#include "models/language_model.h"
#include "models/token_scorer.h"

namespace sluice::models {

/// A plan of a language model; it reads these of a batch:
///
///   target_in, target_out, target_lengths   the tokens fed and those to be predicted
///   source   with features: float32 [1, rows, features], what each row is conditioned on.
///            Carrying states: int32 [1, rows], where each row starts: 0, from zero; 1 + r, from
///            where row r of the batch before ended. Otherwise absent, source_time 0.
///
/// Carried states are constants of the next batch: gradients end where a batch begins (truncated
/// back-propagation through time). Plans that train and plans that evaluate have states of their
/// own, and every call moves them on.
class LanguageModelTraining final : public TrainingPlan, public TokenScorer {
 public:
  LanguageModelTraining(const Context& context, const LanguageModel& model,
                        runtime::ArenaPlanner& planner, const Extent& capacity, bool training);
  ~LanguageModelTraining() override;

  Tensor evaluate(const Context& context, const runtime::Arena& arena, const Batch& batch,
                  const Pass& pass) override;
  Tensor forward_backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                          const Pass& pass) override;
  Tensor sums(const runtime::Arena& arena) const override;
  Tensor score(const Context& context, const runtime::Arena& arena, const Batch& batch) override;

  std::string implementations() const override;
  std::string explain() const override;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
