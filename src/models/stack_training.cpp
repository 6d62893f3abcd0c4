#include "models/stack_training.h"

#include <fmt/format.h>

#include "models/explain.h"
#include "models/stack_probe.h"

namespace sluice::models {

namespace recurrent = kernels::recurrent;

StackTraining::StackTraining(const Context& context, const layers::Parameters& parameters,
                             const layers::RecurrentStack& stack, const SequenceOutput& output,
                             std::unique_ptr<StackInput> input, runtime::ArenaPlanner& planner,
                             const Extent& capacity, bool training)
    : parameters_(&parameters),
      stack_(&stack),
      head_(&output),
      storage_(parameters.storage(context)),
      capacity_(capacity),
      training_(training),
      input_(std::move(input)),
      y_(planner.saved(storage_,
                       {capacity.source_time, capacity.rows, stack.architecture().y_width()})),
      output_(context, output, parameters, planner, capacity.source_time, capacity.rows, training),
      plan_(context, stack, planner, capacity.source_time, capacity.rows, storage_, training,
            "auto", capacity.resets) {
  SLUICE_CHECK(!capacity.resets || !output.pooling(),
               "a model that pools its frames takes no resets within a sequence");
}

void StackTraining::check(const Batch& batch) const {
  const Extent& extent = batch.extent;
  SLUICE_CHECK(extent.rows >= 1 && extent.rows <= capacity_.rows &&
                   extent.source_time <= capacity_.source_time,
               "a batch of {} rows and {} steps does not fit a plan for {} and {}", extent.rows,
               extent.source_time, capacity_.rows, capacity_.source_time);
  SLUICE_CHECK(!batch.target_out || extent.target_time == head_->steps_of(extent.source_time),
               "a batch has targets for {} steps; a model {} takes {}", extent.target_time,
               head_->pooling() ? "that pools" : "with an output for each step",
               head_->steps_of(extent.source_time));
}

void StackTraining::pack(const Context& context, const runtime::Arena& arena) {
  input_->pack(context, arena);
  plan_.pack(context, arena, *parameters_);
  output_.pack(context, arena);
}

void StackTraining::forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                            const Pass& pass, const StackStates& from, const StackStates& to) {
  const std::int64_t time = batch.extent.source_time, rows = batch.extent.rows;
  last_ = {};
  last_.time = time;
  last_.rows = rows;
  last_.x = input_->forward(context, arena, batch, pass);
  last_.lengths = batch.source_lengths;
  last_.h0 = from.h;
  last_.c0 = from.c;
  last_.y = arena.tensor(y_, storage_, {time, rows, stack_->architecture().y_width()});
  last_.hn = to.h;
  last_.cn = to.c;
  last_.row_ids = batch.row_ids;
  last_.resets = batch.resets;
  last_.dropout = pass.dropout.shifted(kStackDropout);
  recurrent::ForwardArgs args = last_;
  StackProbe shown(context, pass.probe, *stack_, args);
  plan_.forward(context, arena, args);
  shown.show(context, *parameters_, plan_.implementation());
  output_.forward(context, arena, last_.y, batch, pass.dropout.shifted(kOutputDropout), pass.probe);
}

void StackTraining::backward(const Context& context, const runtime::Arena& arena,
                             const Batch& batch, const Pass& pass) {
  recurrent::BackwardArgs args;
  args.forward = last_;
  args.dy = output_.backward(context, arena);
  args.dx = input_->gradient(arena);
  plan_.backward(context, arena, *parameters_, args);
  if (args.dx) input_->backward(context, arena, batch, pass);
}

Tensor StackTraining::evaluate(const Context& context, const runtime::Arena& arena,
                               const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(!training_);
  check(batch);
  pack(context, arena);
  forward(context, arena, batch, pass, {}, {});
  if (batch.target_out) {
    output_.loss(context, arena, batch, pass);
  } else {
    context.zero(sums(arena));
  }
  output_.finish(context, arena);
  return sums(arena);
}

Tensor StackTraining::forward_backward(const Context& context, const runtime::Arena& arena,
                                       const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(training_);
  check(batch);
  pack(context, arena);
  forward(context, arena, batch, pass, {}, {});
  output_.loss(context, arena, batch, pass);
  backward(context, arena, batch, pass);
  return sums(arena);
}

Tensor StackTraining::run_part(const Context& context, const runtime::Arena& arena,
                               const Batch& part, const StackStates& from, const StackStates& to) {
  SLUICE_ASSERT(!training_);
  check(part);
  forward(context, arena, part, {}, from, to);
  output_.finish(context, arena);
  return answers(arena);
}

std::string StackTraining::implementations() const {
  return fmt::format("stack={}", plan_.implementation());
}

std::string StackTraining::explain() const { return explain_choice("stack", plan_); }

}  // namespace sluice::models
