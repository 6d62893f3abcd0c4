#include "models/tagger_training.h"

#include <fmt/format.h>

#include "kernels/elementwise/elementwise.h"
#include "models/explain.h"
#include "models/stack_probe.h"
#include "models/tagger_loss.h"
#include "runtime/span.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;
namespace recurrent = kernels::recurrent;

namespace {

// Streams of the dropout keys; layer l of the stack adds l.
constexpr std::uint32_t kEmbeddingStream = 0;
constexpr std::uint32_t kOutputStream = 1;
constexpr std::uint32_t kStackStream = 100;

}  // namespace

struct TaggerTraining::Plan {
  struct Slots {
    runtime::Slot embedded, y, y_dropped;
    runtime::Slot d_y, d_embedded;
    runtime::Slot emissions;
  };

  Plan(const Context& context, const Tagger& model_in, runtime::ArenaPlanner& planner,
       const Extent& capacity_in, bool training_in)
      : model(&model_in),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        training(training_in),
        drops(training_in && model_in.config().dropout > 0),
        slots(book(planner)),
        loss(model_in, planner, capacity_in, training_in),
        stack(context, model_in.stack(), planner, capacity_in.source_time, capacity_in.rows,
              storage, training_in),
        output(context, model_in.output(), planner, capacity_in.source_time * capacity_in.rows,
               storage, training_in) {}

  Slots book(runtime::ArenaPlanner& planner) const;
  void check(const Batch& batch, const Pass& pass) const;
  Tensor tensor(const runtime::Arena& arena, const runtime::Slot& slot, std::int64_t width) const {
    return arena.tensor(slot, storage, {last.time, last.rows, width});
  }
  /// A tensor of this run with time and rows in one axis.
  Tensor flat(const Tensor& x) const { return x.reshape({last.time * last.rows, x.size(2)}); }
  void dropout(const Context& context, const Tensor& x, const Tensor& y, const Batch& batch,
               const Pass& pass, std::uint32_t stream) const {
    const runtime::Span span(context, "dropout");
    elementwise::dropout(
        context, {x, y, batch.row_ids, model->config().dropout, pass.dropout.shifted(stream)});
  }

  void pack(const Context& context, const runtime::Arena& arena) {
    stack.pack(context, arena, model->parameters());
    output.pack(context, arena, model->parameters());
  }
  /// Returns the input of the output layer [time, rows, output_width()].
  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass, const StackStates& from = {}, const StackStates& to = {});
  /// [time, rows, labels] in the type of the parameters.
  Tensor emit(const Context& context, const runtime::Arena& arena, const Tensor& hidden);
  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass, const Tensor& hidden, const Tensor& d_emissions);

  const Tagger* model;
  DType storage;
  Extent capacity;
  bool training;
  bool drops;
  Slots slots;
  TaggerLoss loss;
  layers::RecurrentStackPlan stack;
  layers::LinearPlan output;
  recurrent::ForwardArgs last;  // of the last forward, for backward
};

TaggerTraining::Plan::Slots TaggerTraining::Plan::book(runtime::ArenaPlanner& planner) const {
  const TaggerConfig& config = model->config();
  const std::int64_t time = capacity.source_time, rows = capacity.rows;
  const Shape embedded{time, rows, config.embedding}, hidden{time, rows, config.output_width()};
  Slots booked;
  booked.embedded = planner.saved(storage, embedded);
  booked.y = planner.saved(storage, hidden);
  if (training) {
    // Dropout may not overwrite y: the stack's backward reads it.
    if (drops) booked.y_dropped = planner.saved(storage, hidden);
    booked.d_y = planner.scratch(storage, hidden);
    booked.d_embedded = planner.scratch(storage, embedded);
  }
  booked.emissions = planner.scratch(model->parameters().dtype(), {time, rows, config.labels});
  return booked;
}

void TaggerTraining::Plan::check(const Batch& batch, const Pass& pass) const {
  const Extent& extent = batch.extent;
  SLUICE_CHECK(extent.rows >= 1 && extent.rows <= capacity.rows &&
                   extent.source_time <= capacity.source_time,
               "a batch of {} rows and {} steps does not fit a plan for {} and {}", extent.rows,
               extent.source_time, capacity.rows, capacity.source_time);
  const Shape wanted{extent.source_time, extent.rows};
  SLUICE_CHECK(batch.target_out ? batch.target_out.shape() == wanted : !training,
               "a tagger takes a label for each token, {}, not {}", wanted.to_string(),
               batch.target_out ? batch.target_out.shape().to_string() : "none");
  SLUICE_CHECK(pass.label_smoothing == 0 || model->crf() == nullptr,
               "training.label_smoothing is {}, but a CRF has none; use model.output = softmax",
               pass.label_smoothing);
}

Tensor TaggerTraining::Plan::forward(const Context& context, const runtime::Arena& arena,
                                     const Batch& batch, const Pass& pass, const StackStates& from,
                                     const StackStates& to) {
  check(batch, pass);
  const TaggerConfig& config = model->config();
  last = {};
  last.time = batch.extent.source_time;
  last.rows = batch.extent.rows;
  last.x = tensor(arena, slots.embedded, config.embedding);
  model->embedding().forward(context, model->parameters(), batch.source, last.x);
  if (drops) dropout(context, last.x, last.x, batch, pass, kEmbeddingStream);
  show_input(context, pass.probe, "embedding", last.x, batch.source_lengths);
  last.lengths = batch.source_lengths;
  last.h0 = from.h;
  last.c0 = from.c;
  last.hn = to.h;
  last.cn = to.c;
  last.y = tensor(arena, slots.y, config.output_width());
  last.row_ids = batch.row_ids;
  last.dropout = pass.dropout.shifted(kStackStream);
  recurrent::ForwardArgs args = last;
  StackProbe shown(context, pass.probe, model->stack(), args);
  stack.forward(context, arena, args);
  shown.show(context, model->parameters(), stack.implementation());
  if (!drops) return last.y;
  const Tensor dropped = tensor(arena, slots.y_dropped, config.output_width());
  dropout(context, last.y, dropped, batch, pass, kOutputStream);
  return dropped;
}

Tensor TaggerTraining::Plan::emit(const Context& context, const runtime::Arena& arena,
                                  const Tensor& hidden) {
  const Tensor emissions = arena.tensor(slots.emissions, model->parameters().dtype(),
                                        {last.time, last.rows, model->config().labels});
  output.forward(context, arena, model->parameters(), flat(hidden), flat(emissions));
  return emissions;
}

void TaggerTraining::Plan::backward(const Context& context, const runtime::Arena& arena,
                                    const Batch& batch, const Pass& pass, const Tensor& hidden,
                                    const Tensor& d_emissions) {
  const TaggerConfig& config = model->config();
  recurrent::BackwardArgs args;
  args.forward = last;
  args.dy = tensor(arena, slots.d_y, config.output_width());
  output.backward(context, arena, model->parameters(), flat(hidden), flat(d_emissions),
                  flat(args.dy));
  if (drops) dropout(context, args.dy, args.dy, batch, pass, kOutputStream);
  args.dx = tensor(arena, slots.d_embedded, config.embedding);
  stack.backward(context, arena, model->parameters(), args);
  if (drops) dropout(context, args.dx, args.dx, batch, pass, kEmbeddingStream);
  model->embedding().backward(context, model->parameters(), batch.source, args.dx);
}

TaggerTraining::TaggerTraining(const Context& context, const Tagger& model,
                               runtime::ArenaPlanner& planner, const Extent& capacity,
                               bool training) {
  // The plan's own scratch lives across the calls of its layers, so one scope holds them all.
  const runtime::ScratchScope scope(planner);
  plan_ = std::make_unique<Plan>(context, model, planner, capacity, training);
}

TaggerTraining::~TaggerTraining() = default;

Tensor TaggerTraining::evaluate(const Context& context, const runtime::Arena& arena,
                                const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(!plan_->training);
  plan_->pack(context, arena);
  const Tensor hidden = plan_->forward(context, arena, batch, pass);
  const Tensor emissions = plan_->emit(context, arena, hidden);
  if (pass.probe != nullptr) {
    pass.probe->show(context, {.name = plan_->model->output().name(),
                               .value = emissions,
                               .lengths = batch.source_lengths});
  }
  plan_->loss.compute(context, arena, batch, pass, emissions);
  return plan_->loss.sums(arena);
}

Tensor TaggerTraining::forward_backward(const Context& context, const runtime::Arena& arena,
                                        const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(plan_->training);
  plan_->pack(context, arena);
  const Tensor hidden = plan_->forward(context, arena, batch, pass);
  const Tensor emissions = plan_->emit(context, arena, hidden);
  plan_->loss.compute(context, arena, batch, pass, emissions);
  plan_->backward(context, arena, batch, pass, hidden, emissions);
  return plan_->loss.sums(arena);
}

void TaggerTraining::pack(const Context& context, const runtime::Arena& arena) {
  plan_->pack(context, arena);
}

Tensor TaggerTraining::run_part(const Context& context, const runtime::Arena& arena,
                                const Batch& part, const StackStates& from, const StackStates& to) {
  SLUICE_ASSERT(!plan_->training && plan_->model->crf() == nullptr);
  const Tensor hidden = plan_->forward(context, arena, part, {}, from, to);
  plan_->loss.find_best(context, arena, part, plan_->emit(context, arena, hidden));
  return labels(arena);
}

Tensor TaggerTraining::sums(const runtime::Arena& arena) const { return plan_->loss.sums(arena); }

Tensor TaggerTraining::labels(const runtime::Arena& arena) const {
  return plan_->loss.best(arena, plan_->last.time, plan_->last.rows);
}

std::string TaggerTraining::implementations() const {
  return fmt::format("recurrent={}", plan_->stack.implementation());
}

std::string TaggerTraining::explain() const { return explain_choice("recurrent", plan_->stack); }

}  // namespace sluice::models
