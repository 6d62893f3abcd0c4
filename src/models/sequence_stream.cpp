#include "models/sequence_stream.h"

#include <utility>

#include "base/check.h"

namespace sluice::models {

SequenceStream::SequenceStream(const Context& context, const Model& model,
                               const kernels::recurrent::Descriptor& stack, std::int64_t time,
                               runtime::PackedWeights& weights)
    : time_(time) {
  SLUICE_ASSERT(stack.directions == 1);
  runtime::ArenaPlanner planner(weights);
  plan_ = model.training_plan(context, planner, {1, time, time}, false);
  parts_ = &dynamic_cast<PartPlan&>(*plan_);
  arena_ = runtime::Arena(context.device(), planner);
  parts_->pack(context, arena_);

  const DType storage = model.parameters().storage(context);
  const DType cell = base::policy_of(storage).cell_state;
  const Shape h = stack.h_shape(1), c = stack.c_shape(1);
  const auto bytes = [](DType dtype, const Shape& shape) {
    constexpr std::size_t kAlignment = 64;
    return base::align_up(base::size_of(dtype) * static_cast<std::size_t>(shape.element_count()),
                          kAlignment);
  };
  const std::size_t h_bytes = bytes(storage, h), c_bytes = bytes(cell, c);
  memory_ = runtime::Buffer(context.device(), 2 * (h_bytes + c_bytes));
  const bool has_c = stack.cell == kernels::recurrent::CellType::kLstm;
  std::size_t at = 0;
  for (StackStates* states : {&from_, &to_}) {
    states->h = memory_.tensor(storage, h, at);
    if (has_c) states->c = memory_.tensor(cell, c, at + h_bytes);
    at += h_bytes + c_bytes;
  }
  begin(context);
}

void SequenceStream::begin(const Context& context) const {
  context.zero(from_.h);
  if (from_.c) context.zero(from_.c);
}

Tensor SequenceStream::run(const Context& context, const Tensor& source) {
  Batch part;
  part.extent = {1, source.size(0), 0};
  part.source = source;
  const Tensor answers = parts_->run_part(context, arena_, part, from_, to_);
  std::swap(from_, to_);
  return answers;
}

std::vector<StateTensor> SequenceStream::state() const {
  std::vector<StateTensor> state{{"h", from_.h, 1}};
  if (from_.c) state.push_back({"c", from_.c, 1});
  return state;
}

}  // namespace sluice::models
