#include "training/training_step.h"

#include "kernels/optimizer/loss_scale.h"
#include "runtime/span.h"

namespace sluice::training {
namespace {

// More than the sizes that batches of like sentences come in; a GPU's memory hardly shows them.
constexpr std::size_t kMostGraphs = 256;

}  // namespace

TrainingStep::TrainingStep(const Context& context, const models::Seq2Seq& model,
                           const OptimizerConfig& optimizer, const Options& options)
    : model_(&model),
      options_(options),
      optimizer_(context, model.parameters(), optimizer, options.loss_scaling),
      plans_(model),
      graphs_(kMostGraphs) {}

StepSums TrainingStep::run(const Context& context, const data::PairBatch& batch, std::int64_t step,
                           double learning_rate) {
  const models::Seq2SeqExtent extent = extent_of(batch);
  models::Seq2SeqTraining& plan = plans_.plan(context, extent, true);
  const double scale = 1.0 / static_cast<double>(batch.target_tokens());
  const UploadedStep uploaded = upload_.upload(
      context, batch, options_.static_shapes ? PlanCache::capacity_of(extent) : extent,
      {step, learning_rate, scale});
  const auto work = [&] { queue(context, plan, uploaded); };
  if (options_.static_shapes && context.stream().can_capture()) {
    const runtime::Span span(context, "training_step", "replay");
    graphs_.run(context.stream(), key_of(context, uploaded.batch.extent), work);
  } else {
    work();
  }
  return {plan.sums(plans_.arena()), optimizer_.sum_of_squares(), optimizer_.loss_scale()};
}

void TrainingStep::queue(const Context& context, models::Seq2SeqTraining& plan,
                         const UploadedStep& uploaded) {
  models::Seq2SeqPass pass;
  pass.label_smoothing = options_.label_smoothing;
  pass.scale = uploaded.scale;
  if (options_.loss_scaling) {
    pass.loss_scale = optimizer_.loss_scale().slice(0, kernels::optimizer::kScale,
                                                    kernels::optimizer::kScale + 1);
  }
  pass.dropout = {options_.seed, uploaded.step.data_as<const std::int32_t>(), 0};
  zero_gradients(context);
  plan.forward_backward(context, plans_.arena(), uploaded.batch, pass);
  optimizer_.step(context, uploaded.step, uploaded.learning_rate);
}

void TrainingStep::zero_gradients(const Context& context) const {
  const runtime::Span span(context, "optimizer", "zero gradients");
  context.zero(model_->parameters().gradients());
}

// All else that a step holds on to lives as long as this and never moves.
runtime::GraphKey TrainingStep::key_of(const Context& context,
                                       const models::Seq2SeqExtent& extent) const {
  using runtime::key_of;
  const runtime::Precision& precision = context.precision();
  return {static_cast<std::uint64_t>(extent.rows),
          static_cast<std::uint64_t>(extent.source_time),
          static_cast<std::uint64_t>(extent.target_time),
          static_cast<std::uint64_t>(precision.storage),
          precision.tf32,
          key_of(&context.stream()),
          key_of(upload_.data()),
          key_of(plans_.arena().saved_data()),
          key_of(plans_.arena().scratch_data())};
}

}  // namespace sluice::training
