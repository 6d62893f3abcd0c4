// The first 100 training losses of the classifier and of the features model beside torch's
// (first_losses.h).
#include "models/classifier.h"
#include "models/features.h"
#include "unit/models/first_losses.h"

namespace sluice::models {
namespace {

StackConfig stack_of(const nlohmann::json& golden) {
  StackConfig config;
  config.cell = golden.at("cell");
  config.hidden = golden.at("hidden");
  config.layers = golden.at("layers");
  config.bidirectional = golden.at("bidirectional");
  golden.at("projections").get_to(config.projections);
  config.dropout = 0;
  return config;
}

/// A batch, time-major, padded with zeros; tokens or frames, labels or values.
struct Host {
  std::vector<std::int32_t> tokens, labels, lengths, target_lengths;
  std::vector<float> frames, values;
};

class StackLosses : public FirstLosses {
 protected:
  std::string script() const override { return "stack_losses"; }

  std::unique_ptr<Model> model_of(const Json& golden) const override {
    if (golden.at("model") == "classifier") {
      ClassifierConfig config;
      config.vocabulary = golden.at("vocabulary");
      config.classes = golden.at("outputs");
      config.embedding = golden.at("embedding");
      config.stack = stack_of(golden);
      config.pooling = golden.at("pooling");
      return std::make_unique<Classifier>(config);
    }
    FeaturesConfig config;
    config.features = golden.at("features");
    config.stack = stack_of(golden);
    config.target = golden.at("target");
    config.outputs = golden.at("outputs");
    config.pooling = golden.at("pooling");
    config.output_layer = golden.at("output_layer");
    return std::make_unique<Features>(config);
  }

  void prepare(const Json& golden, Model& model) override {
    const auto weights = golden.at("class_weights").get<std::vector<float>>();
    if (auto* classifier = dynamic_cast<Classifier*>(&model)) {
      if (!weights.empty()) classifier->class_weights().set(context_, weights);
      return;
    }
    auto& features = dynamic_cast<Features&>(model);
    if (!weights.empty()) features.class_weights().set(context_, weights);
    // As the script sets them.
    std::vector<double> mean, scale;
    for (std::int64_t j = 0; j < features.config().features; ++j) {
      mean.push_back(0.1 * static_cast<double>(j));
      scale.push_back(2 / (1 + static_cast<double>(j)));
    }
    Features::set_normalization(context_, features.parameters(), mean, scale);
  }

  Batch batch_of(const Json& golden, std::int64_t index) override {
    const Host host = draw(golden, index);
    const Extent extent = capacity_of(golden);
    Batch batch;
    batch.extent = extent;
    batch.source = golden.at("model") == "classifier"
                       ? put(host.tokens, {extent.source_time, extent.rows})
                       : put(host.frames, {extent.source_time, extent.rows, golden.at("features")});
    batch.source_lengths = put(host.lengths);
    batch.target_out =
        golden.at("target") == "classes"
            ? put(host.labels, {extent.target_time, extent.rows})
            : put(host.values, {extent.target_time, extent.rows, golden.at("outputs")});
    batch.target_lengths = put(host.target_lengths);
    batch.row_ids = put(host.lengths);  // nothing drops out
    return batch;
  }

  Extent capacity_of(const Json& golden) const override {
    const std::int64_t time = golden.at("time");
    return {golden.at("rows"), time, golden.at("pooling") == "none" ? time : 1};
  }

 private:
  /// As examples() of the script.
  Host draw(const Json& golden, std::int64_t index) const {
    const Extent extent = capacity_of(golden);
    const std::int64_t width = golden.at("features"), outputs = golden.at("outputs");
    const bool tokens = golden.at("model") == "classifier";
    const bool labels = golden.at("target") == "classes";
    Host host;
    host.tokens.resize(static_cast<std::size_t>(extent.source_time * extent.rows));
    host.frames.resize(host.tokens.size() * static_cast<std::size_t>(width));
    host.labels.resize(static_cast<std::size_t>(extent.target_time * extent.rows));
    host.values.resize(host.labels.size() * static_cast<std::size_t>(outputs));
    Numbers numbers(index);
    const auto fill = [&](std::vector<float>& all, std::size_t place, std::int64_t count) {
      const std::size_t begin = place * static_cast<std::size_t>(count);
      for (std::size_t j = begin; j < begin + static_cast<std::size_t>(count); ++j) {
        all[j] = numbers.number();
      }
    };
    for (std::int64_t row = 0; row < extent.rows; ++row) {
      const std::int64_t length = 1 + numbers.draw(extent.source_time);
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<std::size_t>(t * extent.rows + row);
        if (!tokens) {
          fill(host.frames, at, width);
        } else {
          host.tokens[at] = numbers.token(golden.at("vocabulary"));
        }
      }
      const std::int64_t steps = extent.target_time == 1 ? 1 : length;
      for (std::int64_t t = 0; t < steps; ++t) {
        const auto at = static_cast<std::size_t>(t * extent.rows + row);
        if (!labels) {
          fill(host.values, at, outputs);
        } else {
          host.labels[at] = static_cast<std::int32_t>(numbers.draw(outputs));
        }
      }
      host.lengths.push_back(static_cast<std::int32_t>(length));
      host.target_lengths.push_back(static_cast<std::int32_t>(steps));
    }
    return host;
  }
};

TEST_P(StackLosses, EqualTorchOverAHundredSteps) { compare("float32"); }
TEST_P(StackLosses, StayWithinTheRoundingOfTf32) { compare("tf32"); }
TEST_P(StackLosses, StayWithinTheRoundingOfBFloat16) { compare("bfloat16"); }
TEST_P(StackLosses, StayWithinTheRoundingOfFloat16) { compare("float16"); }

TEST_P(StackLosses, MistakesInTrainingShow) {
  if (std::string(GetParam()) != "cpu")
    GTEST_SKIP() << "this is a test of the tolerance, which has no device";
  compare_mistakes();
}

INSTANTIATE_TEST_SUITE_P(Devices, StackLosses, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
