#include "models/language_model_decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/embedding/embedding.h"
#include "models/feature_states.h"
#include "runtime/span.h"

namespace sluice::models {

namespace embedding = kernels::embedding;
namespace recurrent = kernels::recurrent;

struct LanguageModelDecoding::Plan {
  // States of every row, and the token of its prompt that is yet to be fed.
  struct State {
    runtime::Slot h, c, token;
  };
  struct Slots {
    State begin;          // of inputs, before their prompts
    State inputs;         // that rows start from
    State rows[2];        // two of each, for a step or reorder writes one while it reads the other
    runtime::Slot table;  // of embeddings, where storage isn't that of parameters
    runtime::Slot embedded, y;
    runtime::Slot prompt, prompt_lengths, prompt_embedded, prompt_y;
  };

  Plan(const Context& context, const LanguageModel& model_in, runtime::ArenaPlanner& planner,
       const Capacity& capacity_in, const runtime::Arena* shared)
      : model(&model_in),
        arena(shared == nullptr ? own_arena : *shared),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        features(context, model_in, planner, capacity_in.inputs, false),
        stack(context, model_in.stack(), planner, 1, capacity_in.rows, storage, false),
        output(context, model_in.output(), planner, capacity_in.rows, storage, false),
        slots(book(planner)) {
    if (capacity.prompt_time == 0) return;
    prompt_stack.emplace(context, model_in.stack(), planner, capacity.prompt_time, capacity.inputs,
                         storage, false);
  }

  State book_state(runtime::ArenaPlanner& planner, std::int64_t count) const;
  Slots book(runtime::ArenaPlanner& planner) const;
  void pack(const Context& context);
  bool stores_parameters() const { return storage == model->parameters().dtype(); }
  // Only of no more embeddings than a step has.
  bool has_own_table() const {
    return !stores_parameters() && model->config().vocabulary <= capacity.rows;
  }
  // Embeddings of all tokens in storage, or absent.
  Tensor table() const;
  RecurrentStates states(const State& booked, std::int64_t count) const;
  Tensor tokens(const State& booked, std::int64_t count) const {
    return arena.tensor(booked.token, DType::kInt32, {count, 1});
  }
  void check(const Inputs& given) const;
  void set(const Context& context, const Inputs& given, const RecurrentStates& states);
  void read_prompts(const Context& context, std::span<const std::vector<std::int32_t>> prompts);
  Tensor embedded() const {
    return arena.tensor(slots.embedded, storage, {1, rows, model->config().embedding});
  }
  // rows of `to` = those of `from`, of `count`, that int32 [rows] names; beside that picks `more`.
  void pick(const Context& context, const State& from, std::int64_t count, const Tensor& which,
            const State& to, const embedding::Picked& more = {}) const;
  // Each row takes its parent's state; beside that picks `more`.
  void reorder(const Context& context, const Tensor& parents, const embedding::Picked& more = {});
  // A step of what is embedded.
  void step(const Context& context, const Tensor& logits);

  const LanguageModel* model;
  runtime::Arena own_arena;
  const runtime::Arena& arena;
  DType storage;
  Capacity capacity;
  FeatureStates features;
  layers::RecurrentStackPlan stack;
  layers::LinearPlan output;
  Slots slots;
  std::optional<layers::RecurrentStackPlan> prompt_stack;

  std::int64_t inputs = 0;
  std::int64_t rows = 0;
  int current = 0;           // which of slots.rows holds the state
  bool has_prompts = false;  // of the inputs
  bool first_step = false;   // nothing was fed since start
};

LanguageModelDecoding::Plan::State LanguageModelDecoding::Plan::book_state(
    runtime::ArenaPlanner& planner, std::int64_t count) const {
  State state;
  state.h = planner.saved(storage, model->h_shape(count));
  if (model->has_cell_state()) {
    state.c = planner.saved(base::policy_of(storage).cell_state, model->c_shape(count));
  }
  state.token = planner.saved(DType::kInt32, {count});
  return state;
}

LanguageModelDecoding::Plan::Slots LanguageModelDecoding::Plan::book(
    runtime::ArenaPlanner& planner) const {
  const LanguageModelConfig& config = model->config();
  Slots booked;
  if (capacity.prompt_time > 0) booked.begin = book_state(planner, capacity.inputs);
  booked.inputs = book_state(planner, capacity.inputs);
  for (State& state : booked.rows) state = book_state(planner, capacity.rows);
  booked.embedded = planner.saved(storage, {capacity.rows, config.embedding});
  if (has_own_table()) {
    booked.table = planner.packed(fmt::format("embeddings {}", base::name_of(storage)), storage,
                                  {config.vocabulary, config.embedding});
  }
  booked.y = planner.saved(storage, {capacity.rows, config.width()});
  const std::int64_t time = capacity.prompt_time;
  if (time == 0) return booked;
  booked.prompt = planner.saved(DType::kInt32, {time, capacity.inputs});
  booked.prompt_lengths = planner.saved(DType::kInt32, {capacity.inputs});
  booked.prompt_embedded = planner.saved(storage, {time, capacity.inputs, config.embedding});
  booked.prompt_y = planner.saved(storage, {time, capacity.inputs, config.width()});
  return booked;
}

void LanguageModelDecoding::Plan::pack(const Context& context) {
  const layers::Parameters& parameters = model->parameters();
  features.pack(context, arena);
  stack.pack(context, arena, parameters);
  output.pack(context, arena, parameters);
  if (prompt_stack) prompt_stack->pack(context, arena, parameters);
  if (!has_own_table() || slots.table.holds(parameters.version())) return;
  const std::int64_t vocabulary = model->config().vocabulary;
  std::vector<std::int32_t> all(static_cast<std::size_t>(vocabulary));
  std::iota(all.begin(), all.end(), 0);
  const Tensor of_all = tokens(slots.rows[0], vocabulary);
  context.upload<std::int32_t>(of_all, all);
  model->embedding().forward(context, parameters, of_all, table());
  slots.table.note_packed(parameters.version());
}

Tensor LanguageModelDecoding::Plan::table() const {
  const LanguageModelConfig& config = model->config();
  if (stores_parameters()) return model->parameters().value(model->embedding().weight());
  if (!has_own_table()) return {};
  return arena.tensor(slots.table, storage, {config.vocabulary, config.embedding});
}

RecurrentStates LanguageModelDecoding::Plan::states(const State& booked, std::int64_t count) const {
  RecurrentStates views;
  views.h = arena.tensor(booked.h, storage, model->h_shape(count));
  if (model->has_cell_state()) {
    views.c = arena.tensor(booked.c, base::policy_of(storage).cell_state, model->c_shape(count));
  }
  return views;
}

void LanguageModelDecoding::Plan::check(const Inputs& given) const {
  SLUICE_CHECK(given.count >= 1 && given.count <= capacity.inputs,
               "{} inputs do not fit a decoder for {}", given.count, capacity.inputs);
  if (!given.states.h && model->config().features > 0) {
    const Shape wanted{given.count, model->config().features};
    SLUICE_CHECK(given.features && given.features.shape() == wanted,
                 "a language model on features decodes from a vector an input, {}, not {}",
                 wanted.to_string(),
                 given.features ? given.features.shape().to_string() : std::string("none"));
  }
  if (given.prompts.empty()) return;
  SLUICE_CHECK(std::ssize(given.prompts) == given.count, "{} prompts given for {} inputs",
               given.prompts.size(), given.count);
  for (std::size_t i = 0; i < given.prompts.size(); ++i) {
    const std::int64_t length = std::ssize(given.prompts[i]);
    SLUICE_CHECK(length >= 1 && length <= capacity.prompt_time,
                 "the prompt of input {} has {} tokens; a decoder takes 1..{}", i, length,
                 capacity.prompt_time);
  }
}

void LanguageModelDecoding::Plan::set(const Context& context, const Inputs& given,
                                      const RecurrentStates& states) {
  if (given.states.h) {
    context.copy(states.h, given.states.h);
    if (states.c) context.copy(states.c, given.states.c);
  } else if (model->config().features > 0) {
    features.forward(context, arena, given.features, states);
  } else {
    context.zero(states.h);
    if (states.c) context.zero(states.c);
  }
}

// All but the last token of each; that one is left to the first step.
void LanguageModelDecoding::Plan::read_prompts(const Context& context,
                                               std::span<const std::vector<std::int32_t>> prompts) {
  std::int64_t time = 1;
  for (const auto& prompt : prompts) time = std::max(time, std::ssize(prompt) - 1);
  const auto count = static_cast<std::size_t>(inputs);
  std::vector<std::int32_t> fed(static_cast<std::size_t>(time) * count), lengths, last;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = prompts[i].size() - 1;
    for (std::size_t t = 0; t < length; ++t) fed[t * count + i] = prompts[i][t];
    lengths.push_back(static_cast<std::int32_t>(length));
    last.push_back(prompts[i].back());
  }
  const LanguageModelConfig& config = model->config();
  const Tensor fed_tensor = arena.tensor(slots.prompt, DType::kInt32, {time, inputs});
  context.upload<std::int32_t>(fed_tensor, fed);
  context.upload<std::int32_t>(tokens(slots.inputs, inputs), last);

  recurrent::ForwardArgs args;
  args.time = time;
  args.rows = inputs;
  args.x = arena.tensor(slots.prompt_embedded, storage, {time, inputs, config.embedding});
  model->embedding().forward(context, model->parameters(), fed_tensor, args.x);
  args.lengths = arena.tensor(slots.prompt_lengths, DType::kInt32, {inputs});
  context.upload<std::int32_t>(args.lengths, lengths);
  const RecurrentStates begin = states(slots.begin, inputs), end = states(slots.inputs, inputs);
  args.h0 = begin.h;
  args.c0 = begin.c;
  args.y = arena.tensor(slots.prompt_y, storage, {time, inputs, config.width()});
  args.hn = end.h;
  args.cn = end.c;
  prompt_stack->forward(context, arena, args);
}

void LanguageModelDecoding::Plan::pick(const Context& context, const State& from,
                                       std::int64_t count, const Tensor& which, const State& to,
                                       const embedding::Picked& more) const {
  const RecurrentStates source = states(from, count), target = states(to, which.size(0));
  std::vector<embedding::Picked> picked{{source.h, which, target.h}};
  if (source.c) picked.push_back({source.c, which, target.c});
  if (more.table) picked.push_back(more);
  embedding::gather_each(context, picked);
  if (has_prompts && first_step) {
    embedding::gather(context, tokens(from, count), which, tokens(to, which.size(0)));
  }
}

LanguageModelDecoding::LanguageModelDecoding(const Context& context, const LanguageModel& model,
                                             const Capacity& capacity) {
  runtime::ArenaPlanner planner;
  plan_ = std::make_unique<Plan>(context, model, planner, capacity, nullptr);
  plan_->own_arena = runtime::Arena(context.device(), planner);
  plan_->pack(context);
}

LanguageModelDecoding::LanguageModelDecoding(const Context& context, const LanguageModel& model,
                                             const Capacity& capacity,
                                             runtime::ArenaPlanner& planner,
                                             const runtime::Arena& arena)
    : plan_(std::make_unique<Plan>(context, model, planner, capacity, &arena)) {}

void LanguageModelDecoding::pack(const Context& context) { plan_->pack(context); }

std::size_t LanguageModelDecoding::bytes(const Context& context, const LanguageModel& model,
                                         const Capacity& capacity) {
  runtime::ArenaPlanner planner;
  const Plan plan(context, model, planner, capacity, nullptr);
  return planner.total();
}

LanguageModelDecoding::~LanguageModelDecoding() = default;

void LanguageModelDecoding::encode(const Context& context, const Inputs& given) {
  Plan& plan = *plan_;
  plan.check(given);
  const runtime::Span span(context, plan.model->stack().name(), "encode");
  plan.inputs = given.count;
  plan.has_prompts = !given.prompts.empty();
  plan.set(context, given,
           plan.states(plan.has_prompts ? plan.slots.begin : plan.slots.inputs, plan.inputs));
  if (plan.has_prompts) plan.read_prompts(context, given.prompts);
}

std::int64_t LanguageModelDecoding::vocabulary() const { return plan_->model->config().vocabulary; }

std::int64_t LanguageModelDecoding::max_rows() const { return plan_->capacity.rows; }

void LanguageModelDecoding::start(const Context& context, const Tensor& input_of_row,
                                  std::int64_t rows) {
  Plan& plan = *plan_;
  SLUICE_CHECK(rows <= plan.capacity.rows, "{} rows do not fit a decoder for {}", rows,
               plan.capacity.rows);
  const runtime::Span span(context, plan.model->stack().name(), "start");
  plan.rows = rows;
  plan.current = 0;
  plan.first_step = true;
  plan.pick(context, plan.slots.inputs, plan.inputs, input_of_row, plan.slots.rows[0]);
}

void LanguageModelDecoding::Plan::step(const Context& context, const Tensor& logits) {
  const LanguageModelConfig& config = model->config();
  first_step = false;
  const RecurrentStates before = states(slots.rows[current], rows);
  current = 1 - current;
  const RecurrentStates after = states(slots.rows[current], rows);
  recurrent::ForwardArgs args;
  args.time = 1;
  args.rows = rows;
  args.x = embedded();
  args.h0 = before.h;
  args.c0 = before.c;
  args.y = arena.tensor(slots.y, storage, {1, rows, config.width()});
  args.hn = after.h;
  args.cn = after.c;
  stack.forward(context, arena, args);
  output.forward(context, arena, model->parameters(), args.y.reshape({rows, config.width()}),
                 logits);
}

void LanguageModelDecoding::Plan::reorder(const Context& context, const Tensor& parents,
                                          const embedding::Picked& more) {
  const runtime::Span span(context, model->stack().name(), "reorder");
  pick(context, slots.rows[current], rows, parents, slots.rows[1 - current], more);
  current = 1 - current;
}

void LanguageModelDecoding::step(const Context& context, const Tensor& tokens, const Tensor& logits,
                                 const Tensor& attention) {
  Plan& plan = *plan_;
  SLUICE_CHECK(!attention, "a language model attends to nothing, so it gives no attention");
  const bool feed_prompts = plan.has_prompts && plan.first_step;
  const Tensor fed = feed_prompts ? plan.tokens(plan.slots.rows[plan.current], plan.rows) : tokens;
  plan.model->embedding().forward(context, plan.model->parameters(), fed, plan.embedded());
  plan.step(context, logits);
}

void LanguageModelDecoding::reorder(const Context& context, const Tensor& parents) {
  Plan& plan = *plan_;
  const std::int64_t rows = parents.size(0);
  SLUICE_CHECK(rows <= plan.capacity.rows, "{} rows do not fit a decoder for {}", rows,
               plan.capacity.rows);
  plan.reorder(context, parents);
  plan.rows = rows;
}

void LanguageModelDecoding::step_from(const Context& context, const Tensor& parents,
                                      const Tensor& tokens, const Tensor& logits,
                                      const Tensor& attention) {
  Plan& plan = *plan_;
  const Tensor table = plan.table();
  const bool feed_prompts = plan.has_prompts && plan.first_step;
  if (!table || attention || feed_prompts || parents.size(0) != plan.rows) {
    return StepModel::step_from(context, parents, tokens, logits, attention);
  }
  // Embeddings are picked beside the states, by the same launch.
  plan.reorder(
      context, parents,
      {table, tokens, plan.embedded().reshape({plan.rows, plan.model->config().embedding})});
  plan.step(context, logits);
}

std::optional<runtime::GraphKey> LanguageModelDecoding::steps_key() const {
  return runtime::GraphKey{static_cast<std::uint64_t>(plan_->rows),
                           static_cast<std::uint64_t>(plan_->current)};
}

std::vector<StateTensor> LanguageModelDecoding::state() const {
  const RecurrentStates states = plan_->states(plan_->slots.rows[plan_->current], plan_->rows);
  std::vector<StateTensor> tensors{{"h", states.h, 1}};
  if (states.c) tensors.push_back({"c", states.c, 1});
  return tensors;
}

}  // namespace sluice::models
