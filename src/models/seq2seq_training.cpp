#include "models/seq2seq_training.h"

#include <fmt/format.h>

#include "kernels/elementwise/elementwise.h"
#include "models/explain.h"
#include "models/output_loss.h"
#include "models/seq2seq_decoder.h"
#include "models/seq2seq_encoder.h"
#include "runtime/span.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;

struct Seq2SeqTraining::Plan {
  struct Slots {
    runtime::Slot fed, embedded, a, a_dropped;
    runtime::Slot d_a, d_embedded;
  };

  Plan(const Context& context, const Seq2Seq& model_in, runtime::ArenaPlanner& planner,
       const Extent& capacity_in, bool training_in)
      : model(&model_in),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        training(training_in),
        slots(book(planner)),
        encoder(context, model_in, planner, capacity_in.rows, capacity_in.source_time, training_in),
        decoder(context, model_in, planner, capacity_in.target_time, capacity_in.source_time,
                capacity_in.rows, training_in),
        output(context, model_in.output(), planner, capacity_in.target_time, capacity_in.rows,
               storage, model_in.parameters().dtype(), training_in) {}

  Slots book(runtime::ArenaPlanner& planner) const;
  void check(const Batch& batch) const;
  Tensor tensor(const runtime::Arena& arena, const runtime::Slot& slot, const Shape& shape) const {
    return arena.tensor(slot, storage, shape);
  }
  OutputLoss::Input output_input(const Tensor& activations, const Batch& batch) const {
    return {activations, batch.target_out, batch.target_lengths};
  }
  layers::Embedding::Dropout embedding_dropout(const Batch& batch, const Pass& pass) const {
    if (!training) return {};
    return {model->config().dropout, pass.dropout.shifted(Seq2SeqDropout::kTargetEmbedding),
            batch.row_ids};
  }
  void dropout(const Context& context, const Tensor& x, const Tensor& y, const Batch& batch,
               const Pass& pass, std::uint32_t stream) const {
    const runtime::Span span(context, "dropout");
    elementwise::dropout(
        context, {x, y, batch.row_ids, model->config().dropout, pass.dropout.shifted(stream)});
  }

  // Everything up to the output layer's input [target_time, rows, hidden].
  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass);
  Tensor decode(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass, const Tensor& tokens);
  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass, const Tensor& d_activations);

  const Seq2Seq* model;
  DType storage;
  Extent capacity;
  bool training;
  Slots slots;
  Seq2SeqEncoder encoder;
  Seq2SeqDecoder decoder;
  OutputLoss output;
  Seq2SeqDecoder::ForwardArgs last;  // of the last forward, for backward
  Tensor fed;                        // the tokens that it was fed
};

Seq2SeqTraining::Plan::Slots Seq2SeqTraining::Plan::book(runtime::ArenaPlanner& planner) const {
  const Seq2SeqConfig& config = model->config();
  const Shape embedded{capacity.target_time, capacity.rows, config.embedding};
  const Shape activations{capacity.target_time, capacity.rows, config.hidden};
  Slots booked;
  booked.embedded = planner.saved(storage, embedded);
  booked.a = planner.saved(storage, activations);
  if (training) {
    // Dropout may not overwrite a: the decoder feeds on it and its backward reads it.
    booked.fed = planner.saved(DType::kInt32, {capacity.target_time, capacity.rows});
    booked.a_dropped = planner.saved(storage, activations);
    booked.d_a = planner.scratch(storage, activations);
    booked.d_embedded = planner.scratch(storage, embedded);
  }
  return booked;
}

void Seq2SeqTraining::Plan::check(const Batch& batch) const {
  const Extent& extent = batch.extent;
  SLUICE_CHECK(extent.rows >= 1 && extent.rows <= capacity.rows &&
                   extent.source_time <= capacity.source_time &&
                   extent.target_time <= capacity.target_time,
               "a batch of {} rows, {} source and {} target steps does not fit a plan for {}, {} "
               "and {}",
               extent.rows, extent.source_time, extent.target_time, capacity.rows,
               capacity.source_time, capacity.target_time);
}

Tensor Seq2SeqTraining::Plan::forward(const Context& context, const runtime::Arena& arena,
                                      const Batch& batch, const Pass& pass) {
  check(batch);
  const Seq2SeqConfig& config = model->config();
  const std::int64_t rows = batch.extent.rows;
  const std::int64_t time = batch.extent.target_time;
  encoder.pack(context, arena);
  decoder.pack(context, arena);
  output.pack(context, arena, model->parameters());
  const EncodedSource encoded =
      encoder.forward(context, arena, batch.source, batch.source_lengths, batch.row_ids, pass);

  last = {};
  last.emb = tensor(arena, slots.embedded, {time, rows, config.embedding});
  last.target_time = time;
  last.source_time = batch.extent.source_time;
  last.rows = rows;
  last.memory = encoded.memory;
  last.source_lengths = batch.source_lengths;
  last.target_lengths = batch.target_lengths;
  last.h0 = encoded.h0;
  last.c0 = encoded.c0;
  last.a = tensor(arena, slots.a, {time, rows, config.hidden});
  last.row_ids = batch.row_ids;
  last.dropout = pass.dropout.shifted(Seq2SeqDropout::kDecoder);
  const Tensor activations = decode(context, arena, batch, pass, batch.target_in);
  if (!training || !pass.sampling) return activations;

  const Tensor mixed = arena.tensor(slots.fed, DType::kInt32, {time, rows});
  context.copy(mixed, batch.target_in);
  output.schedule_inputs(context, arena, model->parameters(), activations, mixed, batch, pass,
                         Seq2SeqDropout::kSampling);
  return decode(context, arena, batch, pass, mixed);
}

// The decoder's run over `tokens`, with what `last` says already.
Tensor Seq2SeqTraining::Plan::decode(const Context& context, const runtime::Arena& arena,
                                     const Batch& batch, const Pass& pass, const Tensor& tokens) {
  fed = tokens;
  model->target_embedding().forward(context, model->parameters(), fed, last.emb,
                                    embedding_dropout(batch, pass));
  show_input(context, pass.probe, "target_embedding", last.emb, batch.target_lengths);
  decoder.forward(context, arena, last, pass.probe);
  if (!training) return last.a;
  const Tensor dropped = tensor(arena, slots.a_dropped, last.a.shape());
  dropout(context, last.a, dropped, batch, pass, Seq2SeqDropout::kOutput);
  return dropped;
}

void Seq2SeqTraining::Plan::backward(const Context& context, const runtime::Arena& arena,
                                     const Batch& batch, const Pass& pass,
                                     const Tensor& d_activations) {
  dropout(context, d_activations, d_activations, batch, pass, Seq2SeqDropout::kOutput);
  const EncodedSource d_encoded = encoder.gradient_views(arena);
  Seq2SeqDecoder::BackwardArgs args;
  args.forward = last;
  args.da = d_activations;
  args.d_emb = tensor(arena, slots.d_embedded, last.emb.shape());
  args.d_memory = d_encoded.memory;
  args.dh0 = d_encoded.h0;
  args.dc0 = d_encoded.c0;
  decoder.backward(context, arena, args);

  encoder.backward(context, arena, [&](const Context& side) {
    model->target_embedding().backward(side, model->parameters(), fed, args.d_emb,
                                       embedding_dropout(batch, pass));
  });
}

Seq2SeqTraining::Seq2SeqTraining(const Context& context, const Seq2Seq& model,
                                 runtime::ArenaPlanner& planner, const Extent& capacity,
                                 bool training) {
  // The plan's own scratch lives across the calls of its layers, so one scope holds them all.
  const runtime::ScratchScope scope(planner);
  plan_ = std::make_unique<Plan>(context, model, planner, capacity, training);
}

Seq2SeqTraining::~Seq2SeqTraining() = default;

Tensor Seq2SeqTraining::evaluate(const Context& context, const runtime::Arena& arena,
                                 const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(!plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, pass);
  return plan_->output.loss(context, arena, plan_->model->parameters(),
                            plan_->output_input(activations, batch), pass, Tensor());
}

Tensor Seq2SeqTraining::forward_backward(const Context& context, const runtime::Arena& arena,
                                         const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, pass);
  const Tensor d_activations = plan_->tensor(arena, plan_->slots.d_a, activations.shape());
  const Tensor sums =
      plan_->output.loss(context, arena, plan_->model->parameters(),
                         plan_->output_input(activations, batch), pass, d_activations);
  plan_->backward(context, arena, batch, pass, d_activations);
  return sums;
}

Tensor Seq2SeqTraining::sums(const runtime::Arena& arena) const {
  return plan_->output.sums(arena);
}

Tensor Seq2SeqTraining::score(const Context& context, const runtime::Arena& arena,
                              const Batch& batch) {
  const Tensor activations = plan_->forward(context, arena, batch, {});
  return plan_->output.score(context, arena, plan_->model->parameters(),
                             plan_->output_input(activations, batch));
}

std::string Seq2SeqTraining::implementations() const {
  return fmt::format("encoder={} decoder={}", plan_->encoder.implementation(),
                     plan_->decoder.implementation());
}

std::string Seq2SeqTraining::explain() const {
  return explain_choice("encoder", plan_->encoder) + explain_choice("decoder", plan_->decoder);
}

}  // namespace sluice::models
