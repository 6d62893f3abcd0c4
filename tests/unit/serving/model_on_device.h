#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/features.h"
#include "models/sequence_stream.h"
#include "models/tagger.h"
#include "serving/piece_runner.h"
#include "unit/support/on_device.h"

/// Small models with random weights that read forward only, and their answers to one sequence.
namespace sluice::serving {

inline constexpr std::int64_t kFeatures = 3, kVocabulary = 17;

inline models::TaggerConfig tagger_config() {
  models::TaggerConfig config;
  config.vocabulary = kVocabulary;
  config.labels = 9;
  config.embedding = 7;
  config.hidden = 10;
  config.layers = 2;
  config.cell = "gru";
  config.bidirectional = false;
  config.output = "softmax";
  return config;
}

inline std::unique_ptr<models::Model> make_model(const std::string& kind) {
  if (kind == "tagger") {
    return std::make_unique<models::Tagger>(tagger_config());
  }
  models::FeaturesConfig config;
  config.features = kFeatures;
  config.stack.layers = 2;
  config.stack.hidden = 10;
  config.stack.bidirectional = false;
  if (kind == "uneven") config.stack.widths = {6, 9};
  if (kind == "projected") config.stack.projections = {4, 5};
  if (kind == "gru") config.stack.cell = "gru";
  config.outputs = 2;
  return std::make_unique<models::Features>(config);
}

inline const kernels::recurrent::Descriptor& architecture_of(const models::Model& model) {
  if (const auto* tagger = dynamic_cast<const models::Tagger*>(&model)) {
    return tagger->stack().architecture();
  }
  return dynamic_cast<const models::Features&>(model).stack().architecture();
}

inline std::string refusal_of(const models::Model& model) {
  if (const auto* tagger = dynamic_cast<const models::Tagger*>(&model)) {
    return tagger->config().refuse_parts();
  }
  return dynamic_cast<const models::Features&>(model).config().refuse_parts();
}

/// A model on a device. Its weights are large, so that earlier steps change later answers.
class ModelOnDevice {
 public:
  ModelOnDevice(const char* device, const std::string& kind)
      : device_(runtime::open_device(device)), context_(*device_), model_(make_model(kind)) {
    model_->parameters().allocate(context_, runtime::DType::kFloat32, false);
    model_->parameters().initialize(context_, 5);
    auto host = context_.download<float>(model_->parameters().values());
    for (float& value : host) value *= 5;
    context_.upload<float>(model_->parameters().values(), host);
  }

  const Context& context() const { return context_; }
  const models::Model& model() const { return *model_; }
  std::int64_t features() const { return model_->kind() == "tagger" ? 0 : kFeatures; }
  PieceRunner runner(const PieceRunner::Capacity& capacity) const {
    return {context_, *model_, architecture_of(*model_), features(), capacity, refusal_of(*model_)};
  }

  /// The answers to a whole sequence of frames, or of tokens.
  PieceAnswer alone(const std::vector<float>& frames,
                    const std::vector<std::int32_t>& tokens) const {
    const std::int64_t steps =
        features() == 0 ? std::ssize(tokens) : std::ssize(frames) / kFeatures;
    runtime::PackedWeights weights;
    models::SequenceStream stream(context_, *model_, architecture_of(*model_), steps, weights);
    if (features() == 0) {
      const runtime::Buffer memory(*device_, tokens.size() * sizeof(std::int32_t));
      const Tensor source = memory.tensor(runtime::DType::kInt32, {steps, 1});
      context_.upload<std::int32_t>(source, tokens);
      return {.values = {},
              .labels = context_.download<std::int32_t>(stream.run(context_, source))};
    }
    const runtime::Buffer memory(*device_, frames.size() * sizeof(float));
    const Tensor source = memory.tensor(runtime::DType::kFloat32, {steps, 1, kFeatures});
    context_.upload<float>(source, frames);
    return {.values = context_.download<float>(stream.run(context_, source)), .labels = {}};
  }

 private:
  std::unique_ptr<runtime::Device> device_;
  Context context_;
  std::unique_ptr<models::Model> model_;
};

/// The order of sums depends on the rows of a batch; the test device's doesn't.
inline void expect_same(const PieceAnswer& answer, const PieceAnswer& expected,
                        const std::string& device) {
  const double tolerance = device == "test" ? 0 : 1e-5;
  EXPECT_EQ(answer.labels, expected.labels);
  ASSERT_EQ(answer.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(answer.values[i], expected.values[i], tolerance);
  }
}

/// A device, and a kind of model.
struct Case {
  const char* device;
  const char* kind;
};
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* device : sluice::testing::device_names()) {
    for (const char* kind : {"lstm", "gru", "uneven", "projected", "tagger"}) {
      all.push_back({device, kind});
    }
  }
  return all;
}
inline std::string name_of(const ::testing::TestParamInfo<Case>& tested) {
  return std::string(tested.param.device) + "_" + tested.param.kind;
}

}  // namespace sluice::serving
