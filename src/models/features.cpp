#include "models/features.h"

#include "kernels/elementwise/elementwise.h"
#include "models/stack_training.h"
#include "runtime/span.h"

namespace sluice::models {
namespace {

namespace elementwise = kernels::elementwise;

constexpr const char* kMeanName = "input.mean";
constexpr const char* kScaleName = "input.scale";

/// Frames of a batch as the stack takes them; nothing learns from their gradient.
class FrameInput final : public StackInput {
 public:
  FrameInput(const Context& context, const Features& model, runtime::ArenaPlanner& planner,
             const Extent& capacity)
      : model_(&model), storage_(model.parameters().storage(context)) {
    if (copies()) {
      x_ = planner.saved(storage_, {capacity.source_time, capacity.rows, model.config().features});
    }
  }

  Tensor forward(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Pass& pass) override {
    if (!copies()) return batch.source;
    const runtime::Span span(context, "input");
    const std::int64_t features = model_->config().features;
    const std::int64_t frames = batch.extent.source_time * batch.extent.rows;
    const Tensor x = arena.tensor(x_, storage_, batch.source.shape());
    if (const auto& normalization = model_->normalization()) {
      elementwise::standardize(context, {.x = batch.source.reshape({frames, features}),
                                         .mean = model_->parameters().value(normalization->mean),
                                         .factor = model_->parameters().value(normalization->scale),
                                         .y = x.reshape({frames, features})});
    } else {
      elementwise::convert(context, batch.source, x);
    }
    show_input(context, pass.probe, "input", x, batch.source_lengths);
    return x;
  }

 private:
  bool copies() const { return model_->normalization() || storage_ != DType::kFloat32; }

  const Features* model_;
  DType storage_;
  runtime::Slot x_;
};

SequenceOutput::Architecture output_of(const FeaturesConfig& config) {
  SequenceOutput::Architecture output;
  output.in = config.stack.output_width();
  output.forward_in = config.stack.forward_width();
  output.out = config.outputs;
  output.has_classes = config.has_classes();
  if (!config.is_per_frame()) output.pooling = kernels::pooling::parse_kind(config.pooling);
  output.has_linear = config.output_layer;
  output.dropout = config.stack.dropout;
  return output;
}

const FeaturesConfig& validated(const FeaturesConfig& config) {
  config.validate();
  return config;
}

std::optional<Features::Normalization> declare_normalization(layers::Parameters& parameters,
                                                             const FeaturesConfig& config) {
  if (!config.normalize) return std::nullopt;
  const Shape shape{config.features};
  return Features::Normalization{parameters.declare(kMeanName, shape, {0, 0}, false),
                                 parameters.declare(kScaleName, shape, {0, 1}, false)};
}

}  // namespace

Features::Features(const FeaturesConfig& config)
    : config_(validated(config)),
      normalization_(declare_normalization(parameters_, config)),
      stack_(parameters_, "stack", config.stack.architecture(config.features)),
      output_(parameters_, output_of(config)) {}

std::unique_ptr<StackTraining> Features::plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const {
  const runtime::ScratchScope scope(planner);
  auto input = std::make_unique<FrameInput>(context, *this, planner, capacity);
  return std::make_unique<StackTraining>(context, parameters_, stack_, output_, std::move(input),
                                         planner, capacity, training);
}

std::unique_ptr<TrainingPlan> Features::training_plan(const Context& context,
                                                      runtime::ArenaPlanner& planner,
                                                      const Extent& capacity, bool training) const {
  return plan(context, planner, capacity, training);
}

void Features::set_normalization(const Context& context, const layers::Parameters& parameters,
                                 std::span<const double> mean, std::span<const double> scale) {
  const auto upload = [&](layers::ParameterId id, std::span<const double> values) {
    base::dispatch_master(parameters.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      parameters.upload<T>(context, id, std::vector<T>(values.begin(), values.end()));
    });
  };
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const std::string& name = parameters.specs()[id].name;
    if (name == kMeanName) upload(id, mean);
    if (name == kScaleName) upload(id, scale);
  }
}

}  // namespace sluice::models
