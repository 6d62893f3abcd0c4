#include "training/training_step.h"

namespace sluice::training {

TrainingStep::TrainingStep(const Context& context, const models::Seq2Seq& model,
                           const OptimizerConfig& optimizer, const Options& options)
    : model_(&model),
      options_(options),
      optimizer_(context, model.parameters(), optimizer),
      plans_(model) {}

StepSums TrainingStep::run(const Context& context, const data::PairBatch& host, std::int64_t step,
                           double learning_rate) {
  const models::Seq2SeqBatch batch = upload_.upload(context, host);
  models::Seq2SeqTraining& plan = plans_.plan(context, batch.extent, true);
  models::Seq2SeqPass pass;
  pass.label_smoothing = options_.label_smoothing;
  pass.scale = 1.0 / static_cast<double>(host.target_tokens());
  pass.seed = options_.seed;
  pass.step = static_cast<std::uint32_t>(step);
  context.zero(model_->parameters().gradients());
  const Tensor sums = plan.forward_backward(context, plans_.arena(), batch, pass);
  optimizer_.step(context, step, learning_rate);
  return {sums, optimizer_.sum_of_squares()};
}

}  // namespace sluice::training
