#include "models/sequence_stream.h"

#include <utility>

#include "base/check.h"

namespace sluice::models {

SequenceStream::SequenceStream(const Context& context, const Model& model,
                               const kernels::recurrent::Descriptor& stack, std::int64_t time,
                               runtime::PackedWeights& weights)
    : time_(time),
      from_(context, stack, model.parameters().storage(context), 1),
      to_(context, stack, model.parameters().storage(context), 1) {
  SLUICE_ASSERT(stack.directions == 1);
  runtime::ArenaPlanner planner(weights);
  plan_ = model.training_plan(context, planner, {1, time, time}, false);
  parts_ = &dynamic_cast<PartPlan&>(*plan_);
  arena_ = runtime::Arena(context.device(), planner);
  parts_->pack(context, arena_);
  begin(context);
}

void SequenceStream::begin(const Context& context) const {
  for (const StateTensor& part : from_.state()) context.zero(part.value);
}

Tensor SequenceStream::run(const Context& context, const Tensor& source) {
  Batch part;
  part.extent = {1, source.size(0), 0};
  part.source = source;
  const Tensor answers = parts_->run_part(context, arena_, part, from_.view(1), to_.view(1));
  std::swap(from_, to_);
  return answers;
}

}  // namespace sluice::models
