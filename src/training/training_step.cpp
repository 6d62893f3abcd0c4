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
      sums_memory_(context.device(), kernels::loss::kSums * sizeof(double)),
      sums_(sums_memory_.tensor(runtime::DType::kFloat64, {kernels::loss::kSums})) {}

StepSums TrainingStep::run(const Context& context, std::span<const data::Batch> batches,
                           std::int64_t step, double learning_rate) {
  std::int64_t tokens = 0;
  for (const data::Batch& batch : batches) tokens += batch.target_tokens();
  return run(context, batches, step, learning_rate, tokens);
}

StepSums TrainingStep::run(const Context& context, std::span<const data::Batch> batches,
                           std::int64_t step, double learning_rate, std::int64_t target_tokens) {
  SLUICE_ASSERT(!batches.empty());
  const StepNumbers numbers{step, learning_rate, 1.0 / static_cast<double>(target_tokens),
                            options_.sampling.at(step)};
  // Collectives must be captured on all ranks or on none. Rank 0 alone validates, and so may have
  // to capture a step again that others replay: a whole step is captured without ranks only.
  const bool whole_step = batches.size() == 1 && !exchange_;
  const Tensor loss = whole_step ? run_alone(context, batches[0], numbers)
                                 : run_one_by_one(context, batches, numbers);
  return {loss, optimizer_.sum_of_squares(), optimizer_.loss_scale()};
}

Tensor TrainingStep::run_alone(const Context& context, const data::Batch& batch,
                               const StepNumbers& numbers) {
  models::TrainingPlan& plan = plans_.plan(context, model_files::extent_of(batch), true);
  const UploadedStep uploaded = upload(context, batch, numbers);
  queue(context, uploaded.batch.extent, true, [&] {
    zero_gradients(context);
    forward_backward(context, plan, uploaded);
    step_of_all(context, uploaded, plan.sums(plans_.arena()));
  });
  return plan.sums(plans_.arena());
}

// What comes before and after all batches stays out of the graphs: a batch's graph serves wherever
// in a step it stands.
Tensor TrainingStep::run_one_by_one(const Context& context, std::span<const data::Batch> batches,
                                    const StepNumbers& numbers) {
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
  step_of_all(context, uploaded, sums_);
  return sums_;
}

void TrainingStep::step_of_all(const Context& context, const UploadedStep& uploaded,
                               const Tensor& sums) {
  if (exchange_) exchange_->run(context, sums);
  optimizer_.measure(context);
  if (exchange_) exchange_->all_reduce_norm(context, optimizer_.sum_of_squares());
  optimizer_.apply(context, uploaded.step, uploaded.learning_rate);
  if (exchange_) exchange_->gather(context, model_->parameters().values());
  optimizer_.finish(context);
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
