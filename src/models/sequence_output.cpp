#include "models/sequence_output.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/loss/loss.h"
#include "runtime/span.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;
namespace loss = kernels::loss;

SequenceOutput::SequenceOutput(layers::Parameters& parameters, const Architecture& architecture)
    : architecture_(architecture) {
  const Architecture& a = architecture_;
  if (a.pooling) pooling_.emplace(parameters, "pooling", *a.pooling, a.in, a.forward_in);
  if (a.has_linear) linear_.emplace(parameters, "output", a.in, a.out);
  SLUICE_ASSERT(a.has_linear || a.in == a.out);
}

SequenceOutputPlan::SequenceOutputPlan(const Context& context, const SequenceOutput& output,
                                       const layers::Parameters& parameters,
                                       runtime::ArenaPlanner& planner, std::int64_t time,
                                       std::int64_t rows, bool training)
    : output_(&output),
      parameters_(&parameters),
      storage_(parameters.storage(context)),
      training_(training),
      slots_(book(planner, time, rows)) {
  if (output.pooling()) {
    pooling_.emplace(*output.pooling(), planner, time, rows, storage_, training);
  }
  if (output.linear()) {
    linear_.emplace(context, *output.linear(), planner, output.steps_of(time) * rows, storage_,
                    training);
  }
}

SequenceOutputPlan::Slots SequenceOutputPlan::book(runtime::ArenaPlanner& planner,
                                                   std::int64_t time, std::int64_t rows) const {
  const SequenceOutput::Architecture& a = output_->architecture();
  const std::int64_t steps = output_->steps_of(time);
  Slots booked;
  booked.outputs = planner.saved(parameters_->dtype(), {steps, rows, a.out});
  booked.sums = planner.saved(DType::kFloat64, {loss::kSums});
  booked.loss_workspace =
      planner.scratch_bytes(a.has_classes ? loss::cross_entropy_workspace_bytes(steps * rows)
                                          : loss::squared_error_workspace_bytes(steps * rows));
  if (!training_) return booked;
  // Dropout may not overwrite x: the backward of what made it reads it.
  if (drops()) booked.dropped = planner.saved(storage_, {steps, rows, a.in});
  booked.d_pooled = planner.scratch(storage_, {steps, rows, a.in});
  if (a.pooling) booked.d_x = planner.scratch(storage_, {time, rows, a.in});
  return booked;
}

bool SequenceOutputPlan::drops() const {
  const SequenceOutput::Architecture& a = output_->architecture();
  return training_ && a.has_linear && a.dropout > 0;
}

void SequenceOutputPlan::drop(const Context& context, const Tensor& from, const Tensor& to) const {
  const runtime::Span span(context, "dropout");
  elementwise::dropout(context, {from, to, row_ids_, output_->architecture().dropout, dropout_});
}

void SequenceOutputPlan::pack(const Context& context, const runtime::Arena& arena) {
  if (linear_) linear_->pack(context, arena, *parameters_);
}

void SequenceOutputPlan::forward(const Context& context, const runtime::Arena& arena,
                                 const Tensor& x, const Batch& batch,
                                 const runtime::DropoutSource& dropout, Probe* probe) {
  const SequenceOutput::Architecture& a = output_->architecture();
  x_ = x;
  row_ids_ = batch.row_ids;
  dropout_ = dropout;
  const Shape shape{output_->steps_of(x.size(0)), x.size(1), a.in};
  read_ = x;
  if (pooling_) {
    read_ = pooling_->forward(context, arena, *parameters_, x, batch.source_lengths).reshape(shape);
    if (probe != nullptr) probe->show(context, {.name = "pooling", .value = read_});
  }
  if (drops()) {
    const Tensor dropped = arena.tensor(slots_.dropped, storage_, shape);
    drop(context, read_, dropped);
    read_ = dropped;
  }
  const std::int64_t tokens = shape[0] * shape[1];
  const Tensor flat = read_.reshape({tokens, a.in});
  const Tensor out = outputs(arena).reshape({tokens, a.out});
  if (linear_) {
    linear_->forward(context, arena, *parameters_, flat, out);
  } else {
    elementwise::convert(context, flat, out);
  }
  if (probe == nullptr) return;
  probe->show(context, {.name = "output",
                        .value = outputs(arena),
                        .lengths = pooling_ ? Tensor() : batch.source_lengths});
}

template <typename Args>
void SequenceOutputPlan::fill_in(const runtime::Arena& arena, const Batch& batch, const Pass& pass,
                                 Args& args) const {
  args.time = read_.size(0);
  args.rows = read_.size(1);
  args.lengths = batch.target_lengths;
  args.scale = pass.scale;
  args.loss_scale = pass.loss_scale;
  args.sums = sums(arena);
  args.workspace = arena.data(slots_.loss_workspace);
}

Tensor SequenceOutputPlan::loss(const Context& context, const runtime::Arena& arena,
                                const Batch& batch, const Pass& pass) {
  const runtime::Span span(context, "loss");
  const SequenceOutput::Architecture& a = output_->architecture();
  const std::int64_t tokens = read_.size(0) * read_.size(1);
  const Tensor out = outputs(arena).reshape({tokens, a.out});
  if (a.has_classes) {
    loss::CrossEntropyArgs args;
    fill_in(arena, batch, pass, args);
    args.logits = out;
    args.targets = batch.target_out.reshape({tokens});
    args.label_smoothing = pass.label_smoothing;
    if (training_) {
      args.class_weights = output_->class_weights().tensor();
      args.d_logits = out;
    }
    loss::cross_entropy(context, args);
  } else {
    loss::SquaredErrorArgs args;
    fill_in(arena, batch, pass, args);
    args.predictions = out;
    args.targets = batch.target_out.reshape({tokens, a.out});
    if (training_) args.d_predictions = out;
    loss::squared_error(context, args);
  }
  return sums(arena);
}

Tensor SequenceOutputPlan::backward(const Context& context, const runtime::Arena& arena) {
  SLUICE_ASSERT(training_);
  const SequenceOutput::Architecture& a = output_->architecture();
  const std::int64_t tokens = read_.size(0) * read_.size(1);
  const Tensor d_out = outputs(arena).reshape({tokens, a.out});
  const Tensor d_pooled = arena.tensor(slots_.d_pooled, storage_, read_.shape());
  const Tensor flat = d_pooled.reshape({tokens, a.in});
  if (linear_) {
    linear_->backward(context, arena, *parameters_, read_.reshape({tokens, a.in}), d_out, flat);
  } else {
    elementwise::convert(context, d_out, flat);
  }
  if (drops()) drop(context, d_pooled, d_pooled);
  if (!pooling_) return d_pooled;
  const Tensor d_x = arena.tensor(slots_.d_x, storage_, x_.shape());
  pooling_->backward(context, arena, *parameters_, d_pooled.reshape({x_.size(1), a.in}), d_x);
  return d_x;
}

void SequenceOutputPlan::finish(const Context& context, const runtime::Arena& arena) const {
  if (!output_->architecture().has_classes) return;
  const runtime::Span span(context, "probabilities");
  const std::int64_t tokens = read_.size(0) * read_.size(1);
  const Tensor out = outputs(arena).reshape({tokens, output_->architecture().out});
  loss::log_softmax(context, out, out);
}

Tensor SequenceOutputPlan::outputs(const runtime::Arena& arena) const {
  return arena.tensor(slots_.outputs, parameters_->dtype(),
                      {output_->steps_of(x_.size(0)), x_.size(1), output_->architecture().out});
}

Tensor SequenceOutputPlan::sums(const runtime::Arena& arena) const {
  return arena.tensor(slots_.sums, DType::kFloat64, {loss::kSums});
}

}  // namespace sluice::models
