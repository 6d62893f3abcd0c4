#include "models/language_model_training.h"

#include <fmt/format.h>

#include "kernels/elementwise/elementwise.h"
#include "models/explain.h"
#include "models/feature_states.h"
#include "models/output_loss.h"
#include "models/stack_probe.h"
#include "runtime/span.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;
namespace recurrent = kernels::recurrent;

namespace {

// Streams of the dropout keys; layer l of the stack adds l.
constexpr std::uint32_t kEmbeddingStream = 0;
constexpr std::uint32_t kOutputStream = 1;
constexpr std::uint32_t kSamplingStream = 2;  // coins of scheduled sampling
constexpr std::uint32_t kStackStream = 100;

}  // namespace

struct LanguageModelTraining::Plan {
  struct States {
    runtime::Slot h, c;
  };
  struct Slots {
    runtime::Slot fed, embedded, y, y_dropped;
    runtime::Slot d_y, d_embedded;
    States start, end, d_start;
  };

  Plan(const Context& context, const LanguageModel& model_in, runtime::ArenaPlanner& planner,
       const Extent& capacity_in, bool training_in)
      : model(&model_in),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        training(training_in),
        drops(training_in && model_in.config().dropout > 0),
        carried(model_in.carried(training_in)),
        slots(book(planner)),
        features(context, model_in, planner, capacity_in.rows, training_in),
        stack(context, model_in.stack(), planner, capacity_in.target_time, capacity_in.rows,
              storage, training_in),
        output(context, model_in.output(), planner, capacity_in.target_time, capacity_in.rows,
               storage, model_in.parameters().dtype(), training_in) {}

  Slots book(runtime::ArenaPlanner& planner) const;
  States book_states(runtime::ArenaPlanner& planner, bool scratch) const;
  RecurrentStates states(const runtime::Arena& arena, const States& booked,
                         std::int64_t rows) const;
  // Whether dropout of the output layer's input, and of its gradient, is a pass of its own.
  bool drops_apart() const { return drops && !output.drops_out(); }
  bool has_features() const { return model->config().features > 0; }
  void check(const Batch& batch) const;
  void dropout(const Context& context, const Tensor& x, const Tensor& y, const Batch& batch,
               const Pass& pass, std::uint32_t stream) const;
  kernels::embedding::Dropout embedding_dropout(const Batch& batch, const Pass& pass) const {
    if (!drops) return {};
    return {model->config().dropout, pass.dropout.shifted(kEmbeddingStream), batch.row_ids};
  }
  OutputLoss::Input output_input(const Tensor& activations, const Batch& batch,
                                 const Pass& pass) const;

  // Of the output layer's input, as the last forward had it.
  Tensor d_activations(const runtime::Arena& arena) const {
    return arena.tensor(slots.d_y, storage, last.y.shape());
  }

  // Everything up to the output layer's input [target_time, rows, width].
  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass);
  Tensor run(const Context& context, const runtime::Arena& arena, const Batch& batch,
             const Pass& pass, const Tensor& tokens, bool drops_output);
  void set_start(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass);
  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass, const Tensor& d_activations);

  const LanguageModel* model;
  DType storage;
  Extent capacity;
  bool training;
  bool drops;
  CarriedStates* carried;  // null unless states are carried
  Slots slots;
  FeatureStates features;
  layers::RecurrentStackPlan stack;
  OutputLoss output;
  recurrent::ForwardArgs last;    // of the last forward, for backward
  Tensor fed;                     // the tokens that it was fed
  bool dropout_is_drawn = false;  // what the loss drops out of its activations
};

LanguageModelTraining::Plan::States LanguageModelTraining::Plan::book_states(
    runtime::ArenaPlanner& planner, bool scratch) const {
  const auto book = [&](DType dtype, const Shape& shape) {
    return scratch ? planner.scratch(dtype, shape) : planner.saved(dtype, shape);
  };
  States booked;
  booked.h = book(storage, model->h_shape(capacity.rows));
  if (model->has_cell_state()) {
    booked.c = book(base::policy_of(storage).cell_state, model->c_shape(capacity.rows));
  }
  return booked;
}

LanguageModelTraining::Plan::Slots LanguageModelTraining::Plan::book(
    runtime::ArenaPlanner& planner) const {
  const LanguageModelConfig& config = model->config();
  const Shape embedded{capacity.target_time, capacity.rows, config.embedding};
  const Shape y{capacity.target_time, capacity.rows, config.width()};
  Slots booked;
  booked.embedded = planner.saved(storage, embedded);
  booked.y = planner.saved(storage, y);
  if (has_features() || carried != nullptr) booked.start = book_states(planner, false);
  if (carried != nullptr) booked.end = book_states(planner, false);
  if (!training) return booked;
  booked.fed = planner.saved(DType::kInt32, {capacity.target_time, capacity.rows});
  // Dropout may not overwrite y: the stack's backward reads it.
  if (drops) booked.y_dropped = planner.saved(storage, y);
  booked.d_y = planner.scratch(storage, y);
  booked.d_embedded = planner.scratch(storage, embedded);
  if (has_features()) booked.d_start = book_states(planner, true);
  return booked;
}

RecurrentStates LanguageModelTraining::Plan::states(const runtime::Arena& arena,
                                                    const States& booked, std::int64_t rows) const {
  RecurrentStates views;
  views.h = arena.tensor(booked.h, storage, model->h_shape(rows));
  if (model->has_cell_state()) {
    views.c = arena.tensor(booked.c, base::policy_of(storage).cell_state, model->c_shape(rows));
  }
  return views;
}

OutputLoss::Input LanguageModelTraining::Plan::output_input(const Tensor& activations,
                                                            const Batch& batch,
                                                            const Pass& pass) const {
  OutputLoss::Input input{activations, batch.target_out, batch.target_lengths};
  if (drops && output.drops_out()) {
    input.dropout = {model->config().dropout, pass.dropout.shifted(kOutputStream), batch.row_ids};
  }
  return input;
}

void LanguageModelTraining::Plan::check(const Batch& batch) const {
  const Extent& extent = batch.extent;
  SLUICE_CHECK(extent.rows >= 1 && extent.rows <= capacity.rows &&
                   extent.target_time <= capacity.target_time,
               "a batch of {} rows and {} steps does not fit a plan for {} and {}", extent.rows,
               extent.target_time, capacity.rows, capacity.target_time);
  if (has_features()) {
    const Shape wanted{1, extent.rows, model->config().features};
    SLUICE_CHECK(batch.source && batch.source.shape() == wanted,
                 "a language model on features takes a vector a row, {}, not {}",
                 wanted.to_string(),
                 batch.source ? batch.source.shape().to_string() : std::string("none"));
  } else if (carried != nullptr) {
    const Shape wanted{1, extent.rows};
    SLUICE_CHECK(batch.source && batch.source.shape() == wanted,
                 "a language model that carries its states takes where each row starts, {}",
                 wanted.to_string());
  }
}

void LanguageModelTraining::Plan::dropout(const Context& context, const Tensor& x, const Tensor& y,
                                          const Batch& batch, const Pass& pass,
                                          std::uint32_t stream) const {
  const runtime::Span span(context, "dropout");
  elementwise::dropout(
      context, {x, y, batch.row_ids, model->config().dropout, pass.dropout.shifted(stream)});
}

void LanguageModelTraining::Plan::set_start(const Context& context, const runtime::Arena& arena,
                                            const Batch& batch, const Pass& pass) {
  if (!has_features() && carried == nullptr) return;
  const std::int64_t rows = batch.extent.rows;
  const RecurrentStates start = states(arena, slots.start, rows);
  if (has_features()) {
    features.pack(context, arena);
    features.forward(context, arena, batch.source.reshape({rows, model->config().features}), start);
  } else {
    carried->load(context, batch.source.reshape({rows}), start);
  }
  last.h0 = start.h;
  last.c0 = start.c;
  if (pass.probe == nullptr) return;
  // A step is a layer; of layers that differ in their widths nothing is shown.
  for (const auto& [name, states] : {std::pair{"start.h_0", start.h}, {"start.c_0", start.c}}) {
    if (states && states.rank() == 3) pass.probe->show(context, {.name = name, .value = states});
  }
}

Tensor LanguageModelTraining::Plan::forward(const Context& context, const runtime::Arena& arena,
                                            const Batch& batch, const Pass& pass) {
  check(batch);
  const LanguageModelConfig& config = model->config();
  const std::int64_t rows = batch.extent.rows;
  const std::int64_t time = batch.extent.target_time;
  stack.pack(context, arena, model->parameters());
  output.pack(context, arena, model->parameters());

  last = {};
  last.time = time;
  last.rows = rows;
  last.x = arena.tensor(slots.embedded, storage, {time, rows, config.embedding});
  last.lengths = batch.target_lengths;
  set_start(context, arena, batch, pass);
  last.y = arena.tensor(slots.y, storage, {time, rows, config.width()});
  if (carried != nullptr) {
    const RecurrentStates end = states(arena, slots.end, rows);
    last.hn = end.h;
    last.cn = end.c;
  }
  last.row_ids = batch.row_ids;
  last.dropout = pass.dropout.shifted(kStackStream);
  const bool samples = training && pass.sampling;
  Tensor activations =
      run(context, arena, batch, pass, batch.target_in, samples ? drops : drops_apart());
  if (samples) {
    const Tensor mixed = arena.tensor(slots.fed, DType::kInt32, {time, rows});
    context.copy(mixed, batch.target_in);
    output.schedule_inputs(context, arena, model->parameters(), activations, mixed, batch, pass,
                           kSamplingStream);
    activations = run(context, arena, batch, pass, mixed, drops_apart());
  }
  // In training overlapped with backward.
  if (carried != nullptr && !training) carried->store(context, {last.hn, last.cn});
  return activations;
}

// The stack's run over `tokens`, with what `last` says already.
Tensor LanguageModelTraining::Plan::run(const Context& context, const runtime::Arena& arena,
                                        const Batch& batch, const Pass& pass, const Tensor& tokens,
                                        bool drops_output) {
  fed = tokens;
  model->embedding().forward(context, model->parameters(), fed, last.x,
                             embedding_dropout(batch, pass));
  show_input(context, pass.probe, "embedding", last.x, batch.target_lengths);
  dropout_is_drawn = false;
  const recurrent::OverlapWork draw = [&](const Context& side) {
    dropout_is_drawn = true;
    output.draw_dropout(side, arena, model->parameters(), output_input(last.y, batch, pass),
                        d_activations(arena));
  };
  recurrent::ForwardArgs args = last;
  if (drops && !drops_apart() && !drops_output) args.overlap_work = &draw;
  StackProbe shown(context, pass.probe, model->stack(), args);
  stack.forward(context, arena, args);
  shown.show(context, model->parameters(), stack.implementation());
  if (!drops_output) return last.y;
  const Tensor dropped = arena.tensor(slots.y_dropped, storage, last.y.shape());
  dropout(context, last.y, dropped, batch, pass, kOutputStream);
  return dropped;
}

void LanguageModelTraining::Plan::backward(const Context& context, const runtime::Arena& arena,
                                           const Batch& batch, const Pass& pass,
                                           const Tensor& d_activations) {
  if (drops_apart()) dropout(context, d_activations, d_activations, batch, pass, kOutputStream);
  recurrent::BackwardArgs args;
  args.forward = last;
  args.dy = d_activations;
  args.dx = arena.tensor(slots.d_embedded, storage, last.x.shape());
  RecurrentStates d_start;
  if (has_features()) {
    d_start = states(arena, slots.d_start, last.rows);
    args.dh0 = d_start.h;
    args.dc0 = d_start.c;
  }
  const recurrent::OverlapWork store = [&](const Context& side) {
    carried->store(side, {last.hn, last.cn});
  };
  if (carried != nullptr) args.overlap_work = &store;
  stack.backward(context, arena, model->parameters(), args);
  model->embedding().backward(context, model->parameters(), fed, args.dx,
                              embedding_dropout(batch, pass));
  if (has_features()) features.backward(context, arena, d_start);
}

LanguageModelTraining::LanguageModelTraining(const Context& context, const LanguageModel& model,
                                             runtime::ArenaPlanner& planner, const Extent& capacity,
                                             bool training) {
  // The plan's own scratch lives across the calls of its layers, so one scope holds them all.
  const runtime::ScratchScope scope(planner);
  plan_ = std::make_unique<Plan>(context, model, planner, capacity, training);
}

LanguageModelTraining::~LanguageModelTraining() = default;

Tensor LanguageModelTraining::evaluate(const Context& context, const runtime::Arena& arena,
                                       const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(!plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, pass);
  return plan_->output.loss(context, arena, plan_->model->parameters(),
                            plan_->output_input(activations, batch, pass), pass, Tensor());
}

Tensor LanguageModelTraining::forward_backward(const Context& context, const runtime::Arena& arena,
                                               const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, pass);
  const Tensor d_activations = plan_->d_activations(arena);
  OutputLoss::Input input = plan_->output_input(activations, batch, pass);
  input.dropout.is_drawn = plan_->dropout_is_drawn;
  const Tensor sums =
      plan_->output.loss(context, arena, plan_->model->parameters(), input, pass, d_activations);
  plan_->backward(context, arena, batch, pass, d_activations);
  return sums;
}

Tensor LanguageModelTraining::sums(const runtime::Arena& arena) const {
  return plan_->output.sums(arena);
}

Tensor LanguageModelTraining::score(const Context& context, const runtime::Arena& arena,
                                    const Batch& batch) {
  const Tensor activations = plan_->forward(context, arena, batch, {});
  return plan_->output.score(context, arena, plan_->model->parameters(),
                             plan_->output_input(activations, batch, {}));
}

std::string LanguageModelTraining::implementations() const {
  return fmt::format("recurrent={}", plan_->stack.implementation());
}

std::string LanguageModelTraining::explain() const {
  return explain_choice("recurrent", plan_->stack);
}

}  // namespace sluice::models
