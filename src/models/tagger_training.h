#pragma once

#include <memory>

#include "models/part_plan.h"
#include "models/tagger.h"

namespace sluice::models {

/// The plan of a Tagger (TrainingPlan says what its calls do). kCorrect counts labels where the
/// model's best sequence has the target.
class TaggerTraining final : public TrainingPlan, public PartPlan {
 public:
  /// As Model::training_plan; the capacity's source_time bounds labels, too.
  TaggerTraining(const Context& context, const Tagger& model, runtime::ArenaPlanner& planner,
                 const Extent& capacity, bool training);
  ~TaggerTraining() override;

  /// Of a batch without target_out the sums are zero.
  Tensor evaluate(const Context& context, const runtime::Arena& arena, const Batch& batch,
                  const Pass& pass) override;
  /// Throws ErrorCode::kInvalidArgument for label smoothing with a CRF, which has none.
  Tensor forward_backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                          const Pass& pass) override;
  Tensor sums(const runtime::Arena& arena) const override;
  /// The best labels of the part, as `labels`; of a model with a softmax.
  Tensor run_part(const Context& context, const runtime::Arena& arena, const Batch& part,
                  const StackStates& from, const StackStates& to) override;
  void pack(const Context& context, const runtime::Arena& arena) override;
  std::string implementations() const override;
  std::string explain() const override;

  /// The best labels of the batch that was evaluated last: int32 [source_time, rows], zero past a
  /// row's end; a view of the arena, valid until the next call.
  Tensor labels(const runtime::Arena& arena) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
