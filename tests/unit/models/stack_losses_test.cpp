// The first 100 training losses of the classifier and of the features model equal those of the same
// models in torch, from the same initial weights and data and without dropout
// (tests/peers/stack_losses.py writes the goldens).
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/loss/loss.h"
#include "models/classifier.h"
#include "models/features.h"
#include "unit/support/golden_optimizer.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"

namespace sluice::models {
namespace {

using Json = nlohmann::json;

StackConfig stack_of(const Json& golden) {
  StackConfig config;
  config.cell = golden.at("cell");
  config.hidden = golden.at("hidden");
  config.layers = golden.at("layers");
  config.bidirectional = golden.at("bidirectional");
  golden.at("projections").get_to(config.projections);
  config.dropout = 0;
  return config;
}

std::unique_ptr<Model> model_of(const Json& golden) {
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

void set_class_weights(const Context& context, const Json& golden, Model& model) {
  const auto weights = golden.value("class_weights", std::vector<float>());
  if (weights.empty()) return;
  if (auto* classifier = dynamic_cast<Classifier*>(&model)) {
    classifier->class_weights().set(context, weights);
  } else {
    dynamic_cast<Features&>(model).class_weights().set(context, weights);
  }
}

/// As the script sets them.
void set_normalization(const Context& context, const Model& model) {
  const auto* features = dynamic_cast<const Features*>(&model);
  if (features == nullptr) return;
  std::vector<double> mean, scale;
  for (std::int64_t j = 0; j < features->config().features; ++j) {
    mean.push_back(0.1 * static_cast<double>(j));
    scale.push_back(2 / (1 + static_cast<double>(j)));
  }
  Features::set_normalization(context, model.parameters(), mean, scale);
}

/// The examples of a batch, as examples() of the script draws them.
class Drawer {
 public:
  Drawer(const Json& golden, std::int64_t batch)
      : golden_(golden), state_((1000003 * (batch + 1) + 17) % 2147483647) {}

  struct Host {
    std::vector<std::int32_t> tokens, labels, lengths, target_lengths;
    std::vector<float> frames, values;
  };

  /// Time-major, padded with zeros.
  Host draw_batch() {
    const std::int64_t rows = golden_.at("rows"), time = golden_.at("time");
    const std::int64_t width = golden_.at("features"), outputs = golden_.at("outputs");
    const bool per_step = golden_.at("pooling") == "none";
    const bool tokens = golden_.at("model") == "classifier";
    const bool labels = golden_.at("target") == "classes";
    const std::int64_t target_time = per_step ? time : 1;
    Host host;
    host.tokens.resize(static_cast<std::size_t>(time * rows));
    host.frames.resize(static_cast<std::size_t>(time * rows * width));
    host.labels.resize(static_cast<std::size_t>(target_time * rows));
    host.values.resize(static_cast<std::size_t>(target_time * rows * outputs));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t length = 1 + draw(time);
      for (std::int64_t t = 0; t < length; ++t) {
        if (tokens) {
          host.tokens[static_cast<std::size_t>(t * rows + r)] =
              static_cast<std::int32_t>(4 + draw(golden_.at("vocabulary").get<int>() - 4));
        } else {
          draw_numbers(width, host.frames, (t * rows + r) * width);
        }
      }
      const std::int64_t steps = per_step ? length : 1;
      for (std::int64_t t = 0; t < steps; ++t) {
        if (labels) {
          host.labels[static_cast<std::size_t>(t * rows + r)] =
              static_cast<std::int32_t>(draw(outputs));
        } else {
          draw_numbers(outputs, host.values, (t * rows + r) * outputs);
        }
      }
      host.lengths.push_back(static_cast<std::int32_t>(length));
      host.target_lengths.push_back(static_cast<std::int32_t>(steps));
    }
    return host;
  }

 private:
  std::int64_t draw(std::int64_t below) {
    state_ = state_ * 48271 % 2147483647;
    return state_ % below;
  }
  void draw_numbers(std::int64_t count, std::vector<float>& out, std::int64_t at) {
    for (std::int64_t j = 0; j < count; ++j) {
      out[static_cast<std::size_t>(at + j)] =
          static_cast<float>(static_cast<double>(draw(2001) - 1000) / 1000);
    }
  }

  const Json& golden_;
  std::int64_t state_;
};

class StackLosses : public sluice::testing::OnDevice {
 protected:
  struct Put {
    Batch batch;
    double targets;
  };

  Put put_batch(const Json& golden, std::int64_t index) {
    const Drawer::Host host = Drawer(golden, index).draw_batch();
    const std::int64_t rows = golden.at("rows"), time = golden.at("time");
    const std::int64_t target_time = golden.at("pooling") == "none" ? time : 1;
    Put result{{}, 0};
    for (const std::int32_t length : host.target_lengths) result.targets += length;
    Batch& batch = result.batch;
    batch.extent = {rows, time, target_time};
    batch.source = golden.at("model") == "classifier"
                       ? put(host.tokens, {time, rows})
                       : put(host.frames, {time, rows, golden.at("features")});
    batch.source_lengths = put(host.lengths);
    batch.target_out = golden.at("target") == "classes"
                           ? put(host.labels, {target_time, rows})
                           : put(host.values, {target_time, rows, golden.at("outputs")});
    batch.target_lengths = put(host.target_lengths);
    batch.row_ids = put(host.lengths);  // nothing drops out
    return result;
  }

  // The loss per target of each step, before its update.
  std::vector<double> train(const Json& golden, std::size_t steps) {
    const std::unique_ptr<Model> model = model_of(golden);
    const layers::Parameters& parameters = model->parameters();
    model->parameters().allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, golden.at("seed"));
    set_normalization(context_, *model);
    set_class_weights(context_, golden, *model);
    std::vector<Put> batches;
    for (std::int64_t i = 0; i < golden.at("batches"); ++i) batches.push_back(put_batch(golden, i));
    const sluice::testing::GoldenOptimizer optimizer(context_, golden, parameters);
    runtime::ArenaPlanner planner;
    const auto plan = model->training_plan(context_, planner, batches.front().batch.extent, true);
    const runtime::Arena arena(*device_, planner);
    std::vector<double> losses;
    for (std::size_t step = 0; step < steps; ++step) {
      const Put& put_batch = batches[step % batches.size()];
      Pass pass;
      pass.label_smoothing = golden.at("label_smoothing");
      pass.scale = put_number(1 / put_batch.targets);
      context_.zero(parameters.gradients());
      const Tensor sums = plan->forward_backward(context_, arena, put_batch.batch, pass);
      losses.push_back(get<double>(sums)[kernels::loss::kLoss] / put_batch.targets);
      optimizer.update(static_cast<std::int32_t>(step) + 1);
    }
    context_.synchronize();
    return losses;
  }
};

// Both sides compute in float32 and sum in different orders; see torch_losses_test.cpp.
TEST_P(StackLosses, EqualTorchOverAHundredSteps) {
  std::ifstream file(sluice::testing::source_path("tests/peers/goldens/stack_losses.json"));
  const Json cases = Json::parse(file).at("cases");
  ASSERT_EQ(cases.size(), 9u);
  for (const Json& golden : cases) {
    const auto expected = golden.at("losses").get<std::vector<double>>();
    ASSERT_EQ(expected.size(), 100u);
    const std::vector<double> losses = train(golden, expected.size());
    double worst = 0;
    for (std::size_t step = 0; step < expected.size(); ++step) {
      const double difference = std::abs(losses[step] / expected[step] - 1);
      ASSERT_LE(difference, 1e-5) << golden.at("name") << ", step " << step << ": loss "
                                  << losses[step] << ", in torch " << expected[step];
      worst = std::max(worst, difference);
    }
    std::cout << golden.at("name") << ": largest relative difference " << worst << std::endl;
    release_memory();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StackLosses, testing::devices(), sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
