#pragma once

#include <memory>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "models/part_plan.h"
#include "models/state_rows.h"
#include "models/step_model.h"

namespace sluice::models {

/// One sequence that comes in parts, through a model that reads forward only and whose plans are
/// PartPlans: a tagger, a classifier, or a stack on features. Owns its memory, but for packed
/// weights. The parameters must not change while it lives.
class SequenceStream {
 public:
  /// For parts of up to `time` steps; `stack` is the architecture of the model's, `weights` are its
  /// packed ones, which other plans may share.
  SequenceStream(const Context& context, const Model& model,
                 const kernels::recurrent::Descriptor& stack, std::int64_t time,
                 runtime::PackedWeights& weights);

  std::int64_t capacity() const { return time_; }
  /// The next part begins a new sequence.
  void begin(const Context& context) const;
  /// The model's source of one row [time, 1, ..] -> PartPlan::run_part.
  Tensor run(const Context& context, const Tensor& source);
  /// Where the sequence stands; views stay valid until the next call.
  std::vector<StateTensor> state() const { return from_.state(); }

 private:
  std::int64_t time_;
  std::unique_ptr<TrainingPlan> plan_;
  PartPlan* parts_;
  runtime::Arena arena_;
  StateRows from_, to_;
};

}  // namespace sluice::models
