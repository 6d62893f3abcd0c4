#include "models/seq2seq_decoding.h"

#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "models/seq2seq_decoder.h"
#include "models/seq2seq_encoder.h"
#include "runtime/span.h"

namespace sluice::models {

namespace attention = kernels::attention_decoder;
namespace embedding = kernels::embedding;

struct Seq2SeqDecoding::Plan {
  // The state of every row; two of each, for reorder writes one while it reads the other.
  struct State {
    runtime::Slot h, c;
    runtime::Slot a, input_of_row;  // state of a decoder with attention alone
  };
  struct Slots {
    State state[2];
    runtime::Slot source_lengths, embedded;
    runtime::Slot keys, values, alpha;  // of a decoder with attention
  };

  Plan(const Context& context, const Seq2Seq& model_in, runtime::ArenaPlanner& planner,
       const Capacity& capacity_in, const runtime::Arena* shared)
      : model(&model_in),
        arena(shared == nullptr ? own_arena : *shared),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        encoder(context, model_in, planner, capacity_in.inputs, capacity_in.source_time, false),
        decoder(context, model_in, planner, 1, capacity_in.source_time, capacity_in.rows, false),
        output(context, model_in.output(), planner, capacity_in.rows, storage, false),
        slots(book(planner)) {}

  Slots book(runtime::ArenaPlanner& planner) const;
  void pack(const Context& context) {
    encoder.pack(context, arena);
    decoder.pack(context, arena);
    output.pack(context, arena, model->parameters());
  }
  Tensor tensor(const runtime::Slot& slot, const Shape& shape) const {
    return arena.tensor(slot, storage, shape);
  }
  Tensor cell_tensor(const runtime::Slot& slot, const Shape& shape) const {
    return arena.tensor(slot, base::policy_of(storage).cell_state, shape);
  }
  Tensor index_tensor(const runtime::Slot& slot, std::int64_t size) const {
    return arena.tensor(slot, DType::kInt32, {size});
  }
  Shape states(std::int64_t count) const {
    return {model->config().decoder_layers, count, model->config().hidden};
  }
  bool has_cell_state() const {
    return model->encoder().architecture().cell == kernels::recurrent::CellType::kLstm;
  }
  std::vector<StateTensor> state(int which, std::int64_t count) const;
  void attend(const Context& context, attention::StepArgs& args, const Tensor& wanted);
  void advance(const Context& context, attention::StepArgs& args);

  const Seq2Seq* model;
  runtime::Arena own_arena;
  const runtime::Arena& arena;
  DType storage;
  Capacity capacity;
  Seq2SeqEncoder encoder;
  Seq2SeqDecoder decoder;
  layers::LinearPlan output;
  Slots slots;

  EncodedSource encoded;
  std::int64_t source_time = 0;
  std::int64_t inputs = 0;
  std::int64_t rows = 0;
  int current = 0;  // which of slots.state holds the state
};

Seq2SeqDecoding::Plan::Slots Seq2SeqDecoding::Plan::book(runtime::ArenaPlanner& planner) const {
  Slots booked;
  for (State& state : booked.state) {
    state.h = planner.saved(storage, states(capacity.rows));
    state.c = planner.saved(base::policy_of(storage).cell_state, states(capacity.rows));
    state.a = planner.saved(storage, {capacity.rows, model->config().hidden});
    state.input_of_row = planner.saved(DType::kInt32, {capacity.rows});
  }
  booked.source_lengths = planner.saved(DType::kInt32, {capacity.inputs});
  booked.embedded = planner.saved(storage, {capacity.rows, model->config().embedding});
  if (!decoder.attends()) return booked;
  booked.keys =
      planner.saved(storage, {capacity.inputs, capacity.source_time, decoder.key_stride()});
  booked.values =
      planner.saved(storage, {capacity.inputs, capacity.source_time, decoder.value_stride()});
  booked.alpha = planner.saved(storage, {capacity.rows, capacity.source_time});
  return booked;
}

std::vector<StateTensor> Seq2SeqDecoding::Plan::state(int which, std::int64_t count) const {
  const State& state = slots.state[which];
  std::vector<StateTensor> tensors{{"h", tensor(state.h, states(count)), 1}};
  if (has_cell_state()) tensors.push_back({"c", cell_tensor(state.c, states(count)), 1});
  if (!decoder.attends()) return tensors;
  tensors.push_back({"a", tensor(state.a, {count, model->config().hidden}), 0});
  tensors.push_back(
      {"input_of_row", index_tensor(state.input_of_row, count).reshape({count, 1}), 0});
  return tensors;
}

Seq2SeqDecoding::Seq2SeqDecoding(const Context& context, const Seq2Seq& model,
                                 const Capacity& capacity) {
  runtime::ArenaPlanner planner;
  plan_ = std::make_unique<Plan>(context, model, planner, capacity, nullptr);
  plan_->own_arena = runtime::Arena(context.device(), planner);
  plan_->pack(context);
}

Seq2SeqDecoding::Seq2SeqDecoding(const Context& context, const Seq2Seq& model,
                                 const Capacity& capacity, runtime::ArenaPlanner& planner,
                                 const runtime::Arena& arena)
    : plan_(std::make_unique<Plan>(context, model, planner, capacity, &arena)) {}

void Seq2SeqDecoding::pack(const Context& context) { plan_->pack(context); }

std::size_t Seq2SeqDecoding::bytes(const Context& context, const Seq2Seq& model,
                                   const Capacity& capacity) {
  runtime::ArenaPlanner planner;
  const Plan plan(context, model, planner, capacity, nullptr);
  return planner.total();
}

Seq2SeqDecoding::~Seq2SeqDecoding() = default;

void Seq2SeqDecoding::encode(const Context& context, const Tensor& source, const Tensor& lengths) {
  Plan& plan = *plan_;
  SLUICE_CHECK(
      source.size(0) <= plan.capacity.source_time && source.size(1) <= plan.capacity.inputs,
      "{} inputs of {} steps do not fit a decoder for {} of {}", source.size(1), source.size(0),
      plan.capacity.inputs, plan.capacity.source_time);
  plan.source_time = source.size(0);
  plan.inputs = source.size(1);
  const Tensor own_lengths = plan.index_tensor(plan.slots.source_lengths, plan.inputs);
  context.copy(own_lengths, lengths);
  plan.encoded = plan.encoder.forward(context, plan.arena, source, own_lengths, Tensor(), Pass{});

  if (!plan.decoder.attends()) return;
  attention::PrepareArgs args;
  args.source_time = plan.source_time;
  args.inputs = plan.inputs;
  args.memory = plan.encoded.memory;
  args.source_lengths = own_lengths;
  args.keys =
      plan.tensor(plan.slots.keys, {plan.inputs, plan.source_time, plan.decoder.key_stride()});
  args.values =
      plan.tensor(plan.slots.values, {plan.inputs, plan.source_time, plan.decoder.value_stride()});
  plan.decoder.prepare_memory(context, plan.arena, args);
}

std::int64_t Seq2SeqDecoding::vocabulary() const {
  return plan_->model->config().target_vocabulary;
}

std::int64_t Seq2SeqDecoding::max_rows() const { return plan_->capacity.rows; }

std::int64_t Seq2SeqDecoding::source_time() const {
  return plan_->decoder.attends() ? plan_->source_time : 0;
}

void Seq2SeqDecoding::start(const Context& context, const Tensor& input_of_row, std::int64_t rows) {
  Plan& plan = *plan_;
  SLUICE_CHECK(rows <= plan.capacity.rows, "{} rows do not fit a decoder for {}", rows,
               plan.capacity.rows);
  const runtime::Span span(context, "decoder", "start");
  plan.rows = rows;
  plan.current = 0;
  const Plan::State& state = plan.slots.state[0];
  const Tensor h = plan.tensor(state.h, plan.states(rows));
  const Tensor c = plan.cell_tensor(state.c, plan.states(rows));
  embedding::gather(context, plan.encoded.h0, input_of_row, h);
  if (plan.has_cell_state()) embedding::gather(context, plan.encoded.c0, input_of_row, c);
  if (!plan.decoder.attends()) return;
  context.zero(plan.tensor(state.a, {rows, plan.model->config().hidden}));
  context.copy(plan.index_tensor(state.input_of_row, rows), input_of_row);
}

void Seq2SeqDecoding::step(const Context& context, const Tensor& tokens, const Tensor& logits,
                           const Tensor& attention) {
  Plan& plan = *plan_;
  const layers::Parameters& parameters = plan.model->parameters();
  SLUICE_CHECK(
      !attention || plan.decoder.attends(),
      "a model with model.attention = \"none\" attends to nothing, so it gives no attention");
  const Plan::State& state = plan.slots.state[plan.current];
  const Tensor embedded =
      plan.tensor(plan.slots.embedded, {plan.rows, plan.model->config().embedding});
  plan.model->target_embedding().forward(context, parameters, tokens, embedded);

  attention::StepArgs args;
  args.source_time = plan.source_time;
  args.inputs = plan.inputs;
  args.rows = plan.rows;
  args.emb = embedded;
  args.h = plan.tensor(state.h, plan.states(plan.rows));
  if (plan.has_cell_state()) args.c = plan.cell_tensor(state.c, plan.states(plan.rows));
  args.a = plan.tensor(state.a, {plan.rows, plan.model->config().hidden});
  if (plan.decoder.attends()) {
    plan.attend(context, args, attention);
  } else {
    plan.advance(context, args);
  }
  plan.output.forward(context, plan.arena, parameters, args.a_next, logits);
}

// A step with attention, which writes over the state.
void Seq2SeqDecoding::Plan::attend(const Context& context, attention::StepArgs& args,
                                   const Tensor& wanted) {
  args.keys = tensor(slots.keys, {inputs, source_time, decoder.key_stride()});
  args.values = tensor(slots.values, {inputs, source_time, decoder.value_stride()});
  args.source_lengths = index_tensor(slots.source_lengths, inputs);
  args.input_of_row = index_tensor(slots.state[current].input_of_row, rows);
  args.h_next = args.h;
  args.c_next = args.c;
  args.a_next = args.a;
  const bool stored_otherwise = wanted && wanted.dtype() != storage;
  args.alpha = stored_otherwise ? tensor(slots.alpha, wanted.shape()) : wanted;
  decoder.step(context, arena, args);
  if (stored_otherwise) kernels::elementwise::convert(context, args.alpha, wanted);
}

// A step without, from one state to the other.
void Seq2SeqDecoding::Plan::advance(const Context& context, attention::StepArgs& args) {
  current = 1 - current;
  const State& next = slots.state[current];
  args.h_next = tensor(next.h, states(rows));
  if (has_cell_state()) args.c_next = cell_tensor(next.c, states(rows));
  args.a_next = args.a;
  decoder.step(context, arena, args);
}

void Seq2SeqDecoding::reorder(const Context& context, const Tensor& parents) {
  Plan& plan = *plan_;
  const runtime::Span span(context, "decoder", "reorder");
  const std::int64_t rows = parents.size(0);
  SLUICE_CHECK(rows <= plan.capacity.rows, "{} rows do not fit a decoder for {}", rows,
               plan.capacity.rows);
  const std::vector<StateTensor> from = plan.state(plan.current, plan.rows);
  const std::vector<StateTensor> to = plan.state(1 - plan.current, rows);
  std::vector<embedding::Picked> picked;
  for (std::size_t i = 0; i < from.size(); ++i) {
    picked.push_back({from[i].value, parents, to[i].value});
  }
  embedding::gather_each(context, picked);
  plan.current = 1 - plan.current;
  plan.rows = rows;
}

std::optional<runtime::GraphKey> Seq2SeqDecoding::steps_key() const {
  const Plan& plan = *plan_;
  return runtime::GraphKey{
      static_cast<std::uint64_t>(plan.source_time), static_cast<std::uint64_t>(plan.inputs),
      static_cast<std::uint64_t>(plan.rows), static_cast<std::uint64_t>(plan.current)};
}

std::vector<StateTensor> Seq2SeqDecoding::state() const {
  return plan_->state(plan_->current, plan_->rows);
}

}  // namespace sluice::models
