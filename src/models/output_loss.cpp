#include "models/output_loss.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/loss/loss.h"
#include "kernels/loss/projected.h"
#include "kernels/sampling/scheduled.h"
#include "runtime/span.h"

namespace sluice::models {

namespace loss = kernels::loss;

namespace {

// Target tokens whose logits are in memory at once.
std::int64_t logit_tokens(const Context& context, std::int64_t vocabulary, bool narrow) {
  // On a CPU enough for a fast product, few enough that logits and their gradient stay in its cache
  // instead of taking tokens x vocabulary.
  if (context.device().runs_host_kernels()) return 512;
  // On a GPU enough to fill it, and where a vocabulary is small, few launches: 750 MiB of float32
  // and of gradients of 16 bits.
  constexpr std::int64_t kFilling = 4096, kMostLogits = 32000 * kFilling;
  return std::max(kFilling, kMostLogits / vocabulary) * (narrow ? 3 : 1);
}

// On a GPU logits of many classes are what a loss moves: they are rounded to 16 bits like all that
// layers hand to each other, and their gradient takes their place.
bool narrows(const Context& context, std::int64_t vocabulary, DType storage, bool training) {
  constexpr std::int64_t kMany = 1024;
  return training && !context.device().runs_host_kernels() && vocabulary > kMany &&
         base::size_of(storage) == 2;
}

}  // namespace

OutputLoss::OutputLoss(const Context& context, const layers::Linear& output,
                       runtime::ArenaPlanner& planner, std::int64_t time, std::int64_t rows,
                       DType storage, DType logits, bool training)
    : output_(&output),
      time_(time),
      rows_(rows),
      wide_type_(logits),
      training_(training),
      narrow_(narrows(context, output.out(), storage, training)),
      projects_(training && loss::projects(context, storage, output.in(), output.out())),
      type_(narrow_ ? storage : logits),
      logit_tokens_(logit_tokens(context, output.out(), narrow_)),
      sums_(planner.saved(DType::kFloat64, {loss::kSums})),
      logits_(planner.scratch(type_,
                              {logit_capacity(), layers::LinearPlan::most_columns(output.out())})),
      workspace_(planner.scratch_bytes(workspace_bytes())),
      mask_(planner.saved_bytes(projects_ ? loss::projected_mask_bytes(time * rows, output.in())
                                          : 0)),
      plan_(context, output, planner, most_logits(), storage, training,
            projects_ ? layers::LinearPlan::Gradient::kAny
            : narrow_ ? layers::LinearPlan::Gradient::kLikeOutput
                      : layers::LinearPlan::Gradient::kBounded) {
  if (!training) scores_ = planner.saved(DType::kFloat64, {time, rows});
}

void OutputLoss::pack(const Context& context, const runtime::Arena& arena,
                      const layers::Parameters& parameters) {
  plan_.pack(context, arena, parameters);
}

std::int64_t OutputLoss::most_logits() const {
  return std::min(std::max(logit_tokens_, rows_), rows_ * time_);
}

// Room for those of one step in float32, too.
std::int64_t OutputLoss::logit_capacity() const {
  return narrow_ ? std::max(most_logits(), 2 * rows_) : most_logits();
}

std::size_t OutputLoss::workspace_bytes() const {
  if (!projects_) return loss::cross_entropy_workspace_bytes(most_logits());
  return loss::projected_cross_entropy_workspace_bytes(output_->out(), output_->in());
}

Tensor OutputLoss::sums(const runtime::Arena& arena) const {
  return arena.tensor(sums_, DType::kFloat64, {loss::kSums});
}

// Calls use for each part in turn, with its logits of this type, which lie in so many columns.
void OutputLoss::for_parts(const Context& context, const runtime::Arena& arena,
                           const layers::Parameters& parameters, const Input& input, DType type,
                           std::int64_t columns,
                           const std::function<void(const Part&)>& use) const {
  const std::int64_t time = input.activations.size(0), rows = input.activations.size(1);
  const std::int64_t tokens_at_once = type == type_ ? logit_tokens_ : logit_capacity() / 2;
  const std::int64_t most = std::max<std::int64_t>(1, tokens_at_once / rows);
  for (std::int64_t first = 0; first < time; first += most) {
    Part part;
    part.first = first;
    part.steps = std::min(most, time - first);
    const std::int64_t tokens = part.steps * rows, end = first + part.steps;
    part.activations = input.activations.slice(0, first, end).reshape({tokens, output_->in()});
    part.targets = input.targets.slice(0, first, end).reshape({tokens});
    part.padded = arena.tensor(logits_, type, {tokens, columns});
    part.logits = part.padded.slice(1, 0, output_->out());
    plan_.forward(context, arena, parameters, part.activations, part.padded);
    use(part);
  }
}

Tensor OutputLoss::loss(const Context& context, const runtime::Arena& arena,
                        const layers::Parameters& parameters, const Input& input, const Pass& pass,
                        const Tensor& d_activations) const {
  if (d_activations && projects_) {
    loss::ProjectedCrossEntropyArgs args = projected_args(arena, parameters, input, d_activations);
    args.label_smoothing = pass.label_smoothing;
    args.scale = pass.scale;
    args.loss_scale = pass.loss_scale;
    const runtime::Span span(context, "loss");
    loss::projected_cross_entropy(context, args);
    return sums(arena);
  }
  SLUICE_ASSERT(input.dropout.rate == 0);
  const auto use = [&](const Part& part) {
    const std::int64_t rows = input.activations.size(1);
    if (pass.probe != nullptr) {
      pass.probe->show(context,
                       {.name = output_->name(),
                        .value = part.padded.reshape({part.steps, rows, part.padded.size(1)}),
                        .lengths = input.lengths,
                        .first_step = part.first,
                        .steps = input.activations.size(0),
                        .width = output_->out()});
    }
    loss::CrossEntropyArgs args;
    args.first_time = part.first;
    args.time = part.steps;
    args.rows = rows;
    args.logits = part.logits;
    args.targets = part.targets;
    args.lengths = input.lengths;
    args.label_smoothing = pass.label_smoothing;
    args.scale = pass.scale;
    args.loss_scale = pass.loss_scale;
    args.sums = sums(arena);
    args.accumulate_sums = part.first > 0;
    args.workspace = arena.data(workspace_);
    if (d_activations) {
      args.d_logits = plan_.narrow_gradient(arena, part.logits.size(0));
      if (!args.d_logits) args.d_logits = narrow_ ? part.padded : part.logits;
      if (narrow_) args.d_bias = parameters.gradient(output_->bias());
      if (plan_.gradient_factor() != 0) {
        // p less the target: the scale is for the layer to add.
        SLUICE_ASSERT(!pass.loss_scale);
        args.scale = {};
        args.gradient_factor = plan_.gradient_factor();
      }
    }
    {
      const runtime::Span span(context, "loss");
      loss::cross_entropy(context, args);
    }
    if (!d_activations) return;
    const Tensor d_part = d_activations.slice(0, part.first, part.first + part.steps)
                              .reshape(part.activations.shape());
    plan_.backward(context, arena, parameters, part.activations, args.d_logits, d_part, pass.scale);
  };
  for_parts(context, arena, parameters, input, type_, plan_.columns(), use);
  return sums(arena);
}

loss::ProjectedCrossEntropyArgs OutputLoss::projected_args(const runtime::Arena& arena,
                                                           const layers::Parameters& parameters,
                                                           const Input& input,
                                                           const Tensor& d_activations) const {
  loss::ProjectedCrossEntropyArgs args;
  args.time = input.activations.size(0);
  args.rows = input.activations.size(1);
  args.x = input.activations;
  args.weight = plan_.weight(arena, parameters);
  args.bias = parameters.value(output_->bias());
  args.targets = input.targets;
  args.lengths = input.lengths;
  args.dropout = input.dropout.rate;
  args.source = input.dropout.source;
  args.row_ids = input.dropout.row_ids;
  args.is_drawn = input.dropout.is_drawn;
  args.dx = d_activations;
  args.d_weight = parameters.gradient(output_->weight());
  args.d_bias = parameters.gradient(output_->bias());
  args.sums = sums(arena);
  args.workspace = arena.data(workspace_);
  args.mask = arena.data(mask_);
  return args;
}

void OutputLoss::draw_dropout(const Context& context, const runtime::Arena& arena,
                              const layers::Parameters& parameters, const Input& input,
                              const Tensor& d_activations) const {
  SLUICE_ASSERT(drops_out());
  const runtime::Span span(context, "dropout");
  loss::draw_projected_mask(context, projected_args(arena, parameters, input, d_activations));
}

void OutputLoss::schedule_inputs(const Context& context, const runtime::Arena& arena,
                                 const layers::Parameters& parameters, const Tensor& activations,
                                 const Tensor& tokens, const Batch& batch, const Pass& pass,
                                 std::uint32_t stream) const {
  const auto use = [&](const Part& part) {
    kernels::sampling::ScheduledInputsArgs args;
    args.first_time = part.first;
    args.time = part.steps;
    args.rows = activations.size(1);
    args.logits = part.logits;
    args.tokens = tokens;
    args.lengths = batch.target_lengths;
    args.row_ids = batch.row_ids;
    args.probability = pass.sampling;
    args.draws = pass.sampling_draws;
    args.source = pass.dropout.shifted(stream);
    const runtime::Span span(context, "scheduled_sampling");
    kernels::sampling::schedule_inputs(context, args);
  };
  for_parts(context, arena, parameters, {activations, tokens, batch.target_lengths}, wide_type_,
            output_->out(), use);
}

Tensor OutputLoss::score(const Context& context, const runtime::Arena& arena,
                         const layers::Parameters& parameters, const Input& input) const {
  SLUICE_ASSERT(!training_);
  const std::int64_t rows = input.activations.size(1);
  const Tensor scores = arena.tensor(scores_, DType::kFloat64, {input.activations.size(0), rows});
  const auto use = [&](const Part& part) {
    loss::TargetScoreArgs args;
    args.first_time = part.first;
    args.time = part.steps;
    args.rows = rows;
    args.logits = part.logits;
    args.targets = part.targets;
    args.lengths = input.lengths;
    args.token_scores =
        scores.slice(0, part.first, part.first + part.steps).reshape({part.targets.size(0)});
    const runtime::Span span(context, "loss", "score");
    loss::score_targets(context, args);
  };
  for_parts(context, arena, parameters, input, wide_type_, output_->out(), use);
  return scores;
}

}  // namespace sluice::models
