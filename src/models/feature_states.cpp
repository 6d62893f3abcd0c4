#include "models/feature_states.h"

#include "kernels/elementwise/elementwise.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;

FeatureStates::FeatureStates(const Context& context, const LanguageModel& model,
                             runtime::ArenaPlanner& planner, std::int64_t rows, bool training)
    : model_(&model), storage_(model.parameters().storage(context)) {
  if (model.start_layers().empty()) return;
  const DType wide = model.parameters().dtype();
  features_ = planner.saved(storage_, {rows, model.config().features});
  h_ = planner.saved(wide, model.h_shape(rows));
  if (model.has_cell_state()) c_ = planner.saved(wide, model.c_shape(rows));
  if (training) d_h_ = planner.scratch(wide, model.h_shape(rows));
  for (const layers::Linear& layer : model.start_layers()) {
    plans_.emplace_back(context, layer, planner, rows, storage_, training);
  }
}

void FeatureStates::pack(const Context& context, const runtime::Arena& arena) {
  for (layers::LinearPlan& plan : plans_) plan.pack(context, arena, model_->parameters());
}

void FeatureStates::forward(const Context& context, const runtime::Arena& arena,
                            const Tensor& features, const RecurrentStates& states) {
  const layers::Parameters& parameters = model_->parameters();
  const DType wide = parameters.dtype();
  const std::int64_t layers = model_->config().layers;
  rows_ = features.size(0);
  const Tensor x = arena.tensor(features_, storage_, features.shape());
  elementwise::convert(context, features, x);
  const auto run = [&](const Tensor& activations, std::int64_t first) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const Tensor y = activations.select(0, layer);
      plans_[static_cast<std::size_t>(first + layer)].forward(context, arena, parameters, x, y);
      elementwise::tanh_forward(context, y, y);
    }
  };
  const Tensor h = arena.tensor(h_, wide, model_->h_shape(rows_));
  run(h, 0);
  elementwise::convert(context, h, states.h);
  if (!states.c) return;
  const Tensor c = arena.tensor(c_, wide, model_->c_shape(rows_));
  run(c, layers);
  context.copy(states.c, c);
}

void FeatureStates::backward(const Context& context, const runtime::Arena& arena,
                             const RecurrentStates& gradients) {
  const layers::Parameters& parameters = model_->parameters();
  const DType wide = parameters.dtype();
  const std::int64_t layers = model_->config().layers;
  const Tensor x = arena.tensor(features_, storage_, {rows_, model_->config().features});
  const auto run = [&](const Tensor& activations, const Tensor& d, std::int64_t first) {
    elementwise::tanh_backward(context, activations, d, d);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      plans_[static_cast<std::size_t>(first + layer)].backward(context, arena, parameters, x,
                                                               d.select(0, layer), Tensor());
    }
  };
  const Tensor d_h = arena.tensor(d_h_, wide, gradients.h.shape());
  elementwise::convert(context, gradients.h, d_h);
  run(arena.tensor(h_, wide, gradients.h.shape()), d_h, 0);
  if (gradients.c) run(arena.tensor(c_, wide, gradients.c.shape()), gradients.c, layers);
}

}  // namespace sluice::models
