#include "models/seq2seq_training.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/loss/loss.h"
#include "models/seq2seq_encoder.h"
#include "runtime/span.h"

namespace sluice::models {

namespace attention = kernels::attention_decoder;
namespace elementwise = kernels::elementwise;
namespace loss = kernels::loss;

namespace {

// Target tokens whose logits are in memory at once. On a CPU enough for a fast product, few enough
// that logits and their gradient stay in its cache instead of taking tokens x vocabulary.
constexpr std::int64_t kHostLogitTokens = 512;
// On a GPU enough to fill it: 512 MiB of logits for a vocabulary of 32,000.
constexpr std::int64_t kGpuLogitTokens = 4096;

}  // namespace

struct Seq2SeqTraining::Plan {
  struct Slots {
    runtime::Slot embedded, a, a_dropped, sums, token_scores;
    runtime::Slot d_a, d_embedded;
    runtime::Slot logits, loss_workspace;
  };

  Plan(const Context& context, const Seq2Seq& model_in, runtime::ArenaPlanner& planner,
       const Extent& capacity_in, bool training_in)
      : model(&model_in),
        storage(model_in.parameters().storage(context)),
        capacity(capacity_in),
        training(training_in),
        logit_tokens(context.device().runs_host_kernels() ? kHostLogitTokens : kGpuLogitTokens),
        slots(book(planner)),
        encoder(context, model_in, planner, capacity_in.rows, capacity_in.source_time, training_in),
        decoder(context, model_in.decoder(), planner, capacity_in.target_time,
                capacity_in.source_time, capacity_in.rows, storage, training_in),
        output(context, model_in.output(), planner, most_logits(), storage, training_in) {}

  Slots book(runtime::ArenaPlanner& planner) const;
  void check(const Batch& batch) const;
  Tensor tensor(const runtime::Arena& arena, const runtime::Slot& slot, const Shape& shape) const {
    return arena.tensor(slot, storage, shape);
  }
  Tensor logits(const runtime::Arena& arena, std::int64_t tokens) const {
    return arena.tensor(slots.logits, model->parameters().dtype(),
                        {tokens, model->config().target_vocabulary});
  }
  Tensor sums(const runtime::Arena& arena) const {
    return arena.tensor(slots.sums, DType::kFloat64, {loss::kSums});
  }
  /// Target steps whose logits are in memory at once, and the tokens that takes at most.
  std::int64_t steps_at_once(std::int64_t rows) const {
    return std::max<std::int64_t>(1, logit_tokens / std::max<std::int64_t>(rows, 1));
  }
  std::int64_t most_logits() const {
    return std::min(std::max(logit_tokens, capacity.rows), capacity.rows * capacity.target_time);
  }
  // In place, unless evaluating.
  void dropout(const Context& context, const Tensor& x, const Batch& batch, const Pass& pass,
               std::uint32_t stream) const {
    if (!training) return;
    const runtime::Span span(context, "dropout");
    elementwise::dropout(
        context, {x, x, batch.row_ids, model->config().dropout, pass.dropout.shifted(stream)});
  }

  // Everything up to the output layer's input [target_time, rows, hidden].
  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass);
  // Calls use(first target step, steps, input of the output layer, logits) for each part in turn.
  template <typename Use>
  void for_logits(const Context& context, const runtime::Arena& arena, const Batch& batch,
                  const Tensor& activations, Use&& use);
  // The sums; with d_activations also their gradient and those of the output layer.
  Tensor compute_loss(const Context& context, const runtime::Arena& arena, const Batch& batch,
                      const Pass& pass, const Tensor& activations, const Tensor& d_activations);
  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass, const Tensor& d_activations);

  const Seq2Seq* model;
  DType storage;
  Extent capacity;
  bool training;
  std::int64_t logit_tokens;
  Slots slots;
  Seq2SeqEncoder encoder;
  layers::AttentionDecoderPlan decoder;
  layers::LinearPlan output;
  attention::ForwardArgs last;  // of the last forward, for backward
};

Seq2SeqTraining::Plan::Slots Seq2SeqTraining::Plan::book(runtime::ArenaPlanner& planner) const {
  const Seq2SeqConfig& config = model->config();
  const Shape embedded{capacity.target_time, capacity.rows, config.embedding};
  const Shape activations{capacity.target_time, capacity.rows, config.hidden};
  Slots booked;
  booked.embedded = planner.saved(storage, embedded);
  booked.a = planner.saved(storage, activations);
  booked.sums = planner.saved(DType::kFloat64, {loss::kSums});
  booked.token_scores = planner.saved(DType::kFloat64, {capacity.target_time, capacity.rows});
  if (training) {
    // Dropout may not overwrite a: the decoder feeds on it and its backward reads it.
    booked.a_dropped = planner.saved(storage, activations);
    booked.d_a = planner.scratch(storage, activations);
    booked.d_embedded = planner.scratch(storage, embedded);
  }
  booked.logits =
      planner.scratch(model->parameters().dtype(), {most_logits(), config.target_vocabulary});
  booked.loss_workspace = planner.scratch_bytes(loss::cross_entropy_workspace_bytes(most_logits()));
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
  decoder.pack(context, arena, model->parameters());
  output.pack(context, arena, model->parameters());
  const EncodedSource encoded = encoder.forward(context, arena, batch.source, batch.source_lengths,
                                                batch.row_ids, pass.dropout);

  last = {};
  last.emb = tensor(arena, slots.embedded, {time, rows, config.embedding});
  model->target_embedding().forward(context, model->parameters(), batch.target_in, last.emb);
  dropout(context, last.emb, batch, pass, Seq2SeqDropout::kTargetEmbedding);
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
  decoder.forward(context, arena, last);

  if (!training) return last.a;
  const Tensor dropped = tensor(arena, slots.a_dropped, last.a.shape());
  context.copy(dropped, last.a);
  dropout(context, dropped, batch, pass, Seq2SeqDropout::kOutput);
  return dropped;
}

template <typename Use>
void Seq2SeqTraining::Plan::for_logits(const Context& context, const runtime::Arena& arena,
                                       const Batch& batch, const Tensor& activations, Use&& use) {
  const std::int64_t rows = batch.extent.rows;
  const std::int64_t most = steps_at_once(rows);
  for (std::int64_t first = 0; first < batch.extent.target_time; first += most) {
    const std::int64_t steps = std::min(most, batch.extent.target_time - first);
    const Tensor part =
        activations.slice(0, first, first + steps).reshape({steps * rows, model->config().hidden});
    const Tensor scores = logits(arena, steps * rows);
    output.forward(context, arena, model->parameters(), part, scores);
    use(first, steps, part, scores);
  }
}

Tensor Seq2SeqTraining::Plan::compute_loss(const Context& context, const runtime::Arena& arena,
                                           const Batch& batch, const Pass& pass,
                                           const Tensor& activations, const Tensor& d_activations) {
  const Tensor sums = this->sums(arena);
  const auto use = [&](std::int64_t first, std::int64_t steps, const Tensor& part,
                       const Tensor& scores) {
    loss::CrossEntropyArgs args;
    args.time = steps;
    args.first_time = first;
    args.rows = batch.extent.rows;
    args.logits = scores;
    args.targets = batch.target_out.slice(0, first, first + steps).reshape({scores.size(0)});
    args.lengths = batch.target_lengths;
    args.label_smoothing = pass.label_smoothing;
    args.scale = pass.scale;
    args.loss_scale = pass.loss_scale;
    args.sums = sums;
    args.accumulate_sums = first > 0;
    args.workspace = arena.data(slots.loss_workspace);
    if (d_activations) args.d_logits = scores;
    {
      const runtime::Span span(context, "loss");
      loss::cross_entropy(context, args);
    }
    if (d_activations) {
      const Tensor d_part = d_activations.slice(0, first, first + steps).reshape(part.shape());
      output.backward(context, arena, model->parameters(), part, scores, d_part);
    }
  };
  for_logits(context, arena, batch, activations, use);
  return sums;
}

void Seq2SeqTraining::Plan::backward(const Context& context, const runtime::Arena& arena,
                                     const Batch& batch, const Pass& pass,
                                     const Tensor& d_activations) {
  dropout(context, d_activations, batch, pass, Seq2SeqDropout::kOutput);
  const EncodedSource d_encoded = encoder.gradient_views(arena);
  attention::BackwardArgs args;
  args.forward = last;
  args.da = d_activations;
  args.d_emb = tensor(arena, slots.d_embedded, last.emb.shape());
  args.d_memory = d_encoded.memory;
  args.dh0 = d_encoded.h0;
  args.dc0 = d_encoded.c0;
  decoder.backward(context, arena, model->parameters(), args);

  dropout(context, args.d_emb, batch, pass, Seq2SeqDropout::kTargetEmbedding);
  model->target_embedding().backward(context, model->parameters(), batch.target_in, args.d_emb);
  encoder.backward(context, arena);
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
  return plan_->compute_loss(context, arena, batch, pass, activations, Tensor());
}

Tensor Seq2SeqTraining::forward_backward(const Context& context, const runtime::Arena& arena,
                                         const Batch& batch, const Pass& pass) {
  SLUICE_ASSERT(plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, pass);
  const Tensor d_activations = plan_->tensor(arena, plan_->slots.d_a, activations.shape());
  const Tensor sums = plan_->compute_loss(context, arena, batch, pass, activations, d_activations);
  plan_->backward(context, arena, batch, pass, d_activations);
  return sums;
}

Tensor Seq2SeqTraining::sums(const runtime::Arena& arena) const { return plan_->sums(arena); }

Tensor Seq2SeqTraining::score(const Context& context, const runtime::Arena& arena,
                              const Batch& batch) {
  SLUICE_ASSERT(!plan_->training);
  const Tensor activations = plan_->forward(context, arena, batch, {});
  const Tensor scores = arena.tensor(plan_->slots.token_scores, DType::kFloat64,
                                     {batch.extent.target_time, batch.extent.rows});
  const auto use = [&](std::int64_t first, std::int64_t steps, const Tensor&,
                       const Tensor& logits) {
    loss::TargetScoreArgs args;
    args.time = steps;
    args.first_time = first;
    args.rows = batch.extent.rows;
    args.logits = logits;
    args.targets = batch.target_out.slice(0, first, first + steps).reshape({logits.size(0)});
    args.lengths = batch.target_lengths;
    args.token_scores = scores.slice(0, first, first + steps).reshape({logits.size(0)});
    const runtime::Span span(context, "loss", "score");
    loss::score_targets(context, args);
  };
  plan_->for_logits(context, arena, batch, activations, use);
  return scores;
}

std::string Seq2SeqTraining::implementations() const {
  return fmt::format("encoder={} decoder={}", plan_->encoder.implementation(),
                     plan_->decoder.implementation());
}

std::string Seq2SeqTraining::explain() const {
  const auto describe = [](const char* part, const auto& layer) {
    std::string text = fmt::format("{} runs on {}\n", part, layer.implementation());
    for (const kernels::recurrent::Declined& declined : layer.declined()) {
      text += fmt::format("  {} declined: {}\n", declined.name, declined.reason);
    }
    return text;
  };
  return describe("encoder", plan_->encoder) + describe("decoder", plan_->decoder);
}

}  // namespace sluice::models
