#include "training/training_step.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/loss/loss.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/optimizer.h"
#include "runtime/span.h"

namespace sluice::training {
namespace {

// More than the sizes that batches of like sentences come in; a GPU's memory hardly shows them.
constexpr std::size_t kMostGraphs = 256;

}  // namespace

TrainingStep::TrainingStep(const Context& context, const models::Model& model,
                           const OptimizerConfig& optimizer, const Options& options)
    : model_(&model),
      options_(options),
      exchange_(options.ranks == nullptr
                    ? std::optional<GradientExchange>()
                    : std::optional<GradientExchange>(std::in_place, context, *options.ranks,
                                                      model.parameters(), options.exchange)),
      optimizer_(
          context, model.parameters(), optimizer, options.loss_scaling,
          exchange_ ? exchange_->shard() : distributed::Share{0, model.parameters().flat_size()}),
      plans_(model),
      graphs_(kMostGraphs),
      sums_memory_(context.device(), (1 + ranks()) * kernels::loss::kSums * sizeof(double)),
      sums_(sums_memory_.tensor(runtime::DType::kFloat64, {kernels::loss::kSums})),
      rank_sums_(sums_memory_.tensor(runtime::DType::kFloat64, {ranks(), kernels::loss::kSums},
                                     kernels::loss::kSums * sizeof(double))) {}

StepSums TrainingStep::run(const Context& context, std::span<const data::Batch> batches,
                           std::int64_t step, double learning_rate) {
  std::int64_t tokens = 0;
  for (const data::Batch& batch : batches) tokens += batch.target_tokens();
  return run(context, batches, numbers_of(step, learning_rate, static_cast<double>(tokens)));
}

StepSums TrainingStep::run(const Context& context, std::span<const data::Batch> batches,
                           const StepNumbers& numbers) {
  SLUICE_ASSERT(!batches.empty());
  if (batches.size() == 1) return sums_of(context, run_whole(context, batches[0], numbers));
  return sums_of(context,
                 run_one_by_one(context, batches, numbers, [&](const UploadedStep& uploaded) {
                   optimizer_.step(context, uploaded.step, uploaded.learning_rate);
                 }));
}

// Collectives must be captured on all ranks or on none. Rank 0 alone validates, and so may have to
// capture a step again that others replay: no whole step is captured.
StepSums TrainingStep::run_together(const Context& context, std::span<const data::Batch> batches,
                                    std::int64_t step, double learning_rate,
                                    const WholeStep& whole) {
  SLUICE_ASSERT(!batches.empty() && exchange_);
  const StepNumbers numbers =
      numbers_of(step, learning_rate, static_cast<double>(whole.target_tokens));
  run_one_by_one(context, batches, numbers, [&](const UploadedStep& uploaded) {
    sums_of(context, sums_);
    exchange_->run(context, rank_sums_, whole.rows_read);
    optimizer_.measure(context);
    exchange_->all_reduce_norm(context, optimizer_.sum_of_squares());
    optimizer_.apply(context, uploaded.step, uploaded.learning_rate);
    exchange_->gather(context, model_->parameters().values());
    optimizer_.finish(context);
  });
  return {rank_sums_, optimizer_.sum_of_squares(), optimizer_.loss_scale(), true};
}

StepSums TrainingStep::run_apart(const Context& context, std::span<const data::Batch> batches,
                                 std::int64_t step, double learning_rate, double target_tokens,
                                 SharedParameters* shared) {
  const StepNumbers numbers = numbers_of(step, learning_rate, target_tokens);
  if (shared == nullptr) return run(context, batches, numbers);
  run_one_by_one(context, batches, numbers, [&](const UploadedStep& uploaded) {
    optimizer_.measure(context);
    shared->update(context, optimizer_, uploaded.step, uploaded.learning_rate);
    optimizer_.finish(context);
  });
  return sums_of(context, sums_);
}

StepNumbers TrainingStep::numbers_of(std::int64_t step, double learning_rate,
                                     double target_tokens) const {
  return {step, learning_rate, 1.0 / target_tokens, options_.sampling.at(step)};
}

Tensor TrainingStep::run_whole(const Context& context, const data::Batch& batch,
                               const StepNumbers& numbers) {
  models::TrainingPlan& plan = plans_.plan(context, model_files::extent_of(batch), true);
  const UploadedStep uploaded = upload(context, batch, numbers);
  queue(context, uploaded.batch.extent, true, [&] {
    zero_gradients(context);
    forward_backward(context, plan, uploaded);
    optimizer_.step(context, uploaded.step, uploaded.learning_rate);
  });
  return plan.sums(plans_.arena());
}

// What comes before and after all batches stays out of the graphs: a batch's graph serves wherever
// in a step it stands.
Tensor TrainingStep::run_one_by_one(const Context& context, std::span<const data::Batch> batches,
                                    const StepNumbers& numbers, const Update& update) {
  zero_gradients(context);
  context.zero(sums_);
  UploadedStep uploaded;
  for (const data::Batch& batch : batches) {
    models::TrainingPlan& plan = plans_.plan(context, model_files::extent_of(batch), true);
    uploaded = upload(context, batch, numbers);
    queue(context, uploaded.batch.extent, false,
          [&] { forward_backward(context, plan, uploaded); });
    kernels::elementwise::accumulate(context, 1, plan.sums(plans_.arena()), sums_);
  }
  update(uploaded);
  return sums_;
}

/// This rank's sums, `own`, among those of all, which are zero.
StepSums TrainingStep::sums_of(const Context& context, const Tensor& own) const {
  const StepSums sums{own, optimizer_.sum_of_squares(), optimizer_.loss_scale()};
  if (options_.ranks == nullptr) return sums;
  context.zero(rank_sums_);
  context.copy(rank_sums_.select(0, options_.ranks->rank()), own);
  return {rank_sums_, sums.gradient_squares, sums.loss_scale, options_.ranks->size() == 1};
}

std::int64_t TrainingStep::ranks() const {
  return options_.ranks == nullptr ? 1 : options_.ranks->size();
}

void TrainingStep::gather_gradients(const Context& context) const {
  if (exchange_) exchange_->gather(context, model_->parameters().gradients());
}

void TrainingStep::gather_moments(const Context& context) const {
  if (!exchange_) return;
  for (const Tensor& tensor : optimizer_.state()) {
    if (tensor.shape() == model_->parameters().values().shape()) exchange_->gather(context, tensor);
  }
}

UploadedStep TrainingStep::upload(const Context& context, const data::Batch& batch,
                                  const StepNumbers& numbers) {
  const models::Extent extent = model_files::extent_of(batch);
  return upload_.upload(context, batch,
                        options_.static_shapes ? PlanCache::capacity_of(extent) : extent, numbers);
}

void TrainingStep::queue(const Context& context, const models::Extent& extent, bool whole_step,
                         const std::function<void()>& work) {
  if (!options_.static_shapes || !context.stream().can_capture()) return work();
  const runtime::Span span(context, "training_step", "replay");
  graphs_.run(context.stream(), key_of(context, extent, whole_step), work);
}

void TrainingStep::forward_backward(const Context& context, models::TrainingPlan& plan,
                                    const UploadedStep& uploaded) {
  models::Pass pass;
  pass.label_smoothing = options_.label_smoothing;
  pass.scale = uploaded.scale;
  if (options_.loss_scaling) {
    pass.loss_scale = optimizer_.loss_scale().slice(0, kernels::optimizer::kScale,
                                                    kernels::optimizer::kScale + 1);
  }
  pass.dropout = {options_.seed, uploaded.step.data_as<const std::int32_t>(), 0};
  if (options_.sampling.is_used()) pass.sampling = uploaded.sampling;
  pass.sampling_draws = options_.sampling.draws();
  plan.forward_backward(context, plans_.arena(), uploaded.batch, pass);
}

void TrainingStep::zero_gradients(const Context& context) const {
  const runtime::Span span(context, "optimizer", "zero gradients");
  const layers::Parameters& parameters = model_->parameters();
  kernels::optimizer::zero_gradients(context,
                                     {parameters.gradients(), parameters.gradient_marks()});
}

// All else that a step holds on to lives as long as this and never moves.
runtime::GraphKey TrainingStep::key_of(const Context& context, const models::Extent& extent,
                                       bool whole_step) const {
  using runtime::key_of;
  const runtime::Precision& precision = context.precision();
  return {static_cast<std::uint64_t>(extent.rows),
          static_cast<std::uint64_t>(extent.source_time),
          static_cast<std::uint64_t>(extent.target_time),
          extent.resets,
          static_cast<std::uint64_t>(precision.storage),
          precision.tf32,
          whole_step,
          key_of(&context.stream()),
          key_of(upload_.data()),
          key_of(plans_.arena().saved_data()),
          key_of(plans_.arena().scratch_data())};
}

}  // namespace sluice::training
