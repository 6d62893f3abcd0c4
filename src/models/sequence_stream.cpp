#include "models/feature_stream.h"

namespace sluice::models {

FeatureStream::FeatureStream(const Context& context, const Features& model, std::int64_t time)
    : time_(time) {
  SLUICE_ASSERT(model.config().is_per_frame() && !model.config().stack.bidirectional);
  runtime::ArenaPlanner planner;
  plan_ = model.plan(context, planner, {1, time, time}, false);
  arena_ = runtime::Arena(context.device(), planner);
  plan_->pack(context, arena_);

  const kernels::recurrent::Descriptor& stack = model.stack().architecture();
  const DType storage = model.parameters().storage(context);
  const DType cell = base::policy_of(storage).cell_state;
  const Shape h = stack.h_shape(1), c{stack.layers, 1, stack.hidden};
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

void FeatureStream::begin(const Context& context) const {
  context.zero(from_.h);
  if (from_.c) context.zero(from_.c);
}

Tensor FeatureStream::run(const Context& context, const Tensor& frames) {
  Batch part;
  part.extent = {1, frames.size(0), 0};
  part.source = frames;
  plan_->run(context, arena_, part, from_, to_);
  std::swap(from_, to_);
  return plan_->answers(arena_);
}

}  // namespace sluice::models
