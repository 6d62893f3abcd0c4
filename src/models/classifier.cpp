#include "models/classifier.h"

#include "kernels/elementwise/elementwise.h"
#include "models/stack_training.h"
#include "runtime/span.h"

namespace sluice::models {
namespace {

namespace elementwise = kernels::elementwise;

/// Embeddings of tokens, under dropout when training.
class TokenInput final : public StackInput {
 public:
  TokenInput(const Context& context, const Classifier& model, runtime::ArenaPlanner& planner,
             const Extent& capacity, bool training)
      : model_(&model), storage_(model.parameters().storage(context)), training_(training) {
    const Shape shape{capacity.source_time, capacity.rows, model.config().embedding};
    embedded_ = planner.saved(storage_, shape);
    if (training) d_embedded_ = planner.scratch(storage_, shape);
  }

  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass) override {
    shape_ = {batch.extent.source_time, batch.extent.rows, model_->config().embedding};
    const Tensor embedded = arena.tensor(embedded_, storage_, shape_);
    model_->embedding().forward(context, model_->parameters(), batch.source, embedded);
    if (training_) drop(context, embedded, batch, pass);
    show_input(context, pass.probe, "embedding", embedded, batch.source_lengths);
    return embedded;
  }

  Tensor gradient(const runtime::Arena& arena) const override {
    return arena.tensor(d_embedded_, storage_, shape_);
  }

  void backward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                const Pass& pass) override {
    drop(context, gradient(arena), batch, pass);
    model_->embedding().backward(context, model_->parameters(), batch.source, gradient(arena));
  }

 private:
  /// In place: embeddings, or their gradient.
  void drop(const Context& context, const Tensor& x, const Batch& batch, const Pass& pass) const {
    const runtime::Span span(context, "dropout");
    elementwise::dropout(context, {x, x, batch.row_ids, model_->config().stack.dropout,
                                   pass.dropout.shifted(StackTraining::kInputDropout)});
  }

  const Classifier* model_;
  DType storage_;
  bool training_;
  runtime::Slot embedded_, d_embedded_;
  Shape shape_;  // of the last forward
};

SequenceOutput::Architecture output_of(const ClassifierConfig& config) {
  SequenceOutput::Architecture output;
  output.in = config.stack.output_width();
  output.forward_in = config.stack.forward_width();
  output.out = config.classes;
  output.pooling = kernels::pooling::parse_kind(config.pooling);
  output.dropout = config.stack.dropout;
  return output;
}

const ClassifierConfig& validated(const ClassifierConfig& config) {
  config.validate();
  return config;
}

}  // namespace

Classifier::Classifier(const ClassifierConfig& config)
    : config_(validated(config)),
      embedding_(parameters_, "embedding", config.vocabulary, config.embedding),
      stack_(parameters_, "stack", config.stack.architecture(config.embedding)),
      output_(parameters_, output_of(config)) {}

std::unique_ptr<TrainingPlan> Classifier::training_plan(const Context& context,
                                                        runtime::ArenaPlanner& planner,
                                                        const Extent& capacity,
                                                        bool training) const {
  const runtime::ScratchScope scope(planner);
  auto input = std::make_unique<TokenInput>(context, *this, planner, capacity, training);
  return std::make_unique<StackTraining>(context, parameters_, stack_, output_, std::move(input),
                                         planner, capacity, training);
}

}  // namespace sluice::models
