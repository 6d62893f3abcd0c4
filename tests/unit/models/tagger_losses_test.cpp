// The first 100 training losses of the tagger equal those of the same model in torch, from the same
// initial weights and data and without dropout (tests/peers/tagger_losses.py writes the goldens).
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/loss/loss.h"
#include "models/tagger_training.h"
#include "unit/support/golden_optimizer.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"

namespace sluice::models {
namespace {

using Json = nlohmann::json;

TaggerConfig config_of(const Json& golden) {
  TaggerConfig config;
  config.cell = golden.at("cell");
  config.output = golden.at("output");
  config.bidirectional = golden.at("bidirectional");
  config.layers = golden.at("layers");
  config.vocabulary = golden.at("vocabulary");
  config.labels = golden.at("labels");
  config.embedding = golden.at("embedding");
  config.hidden = golden.at("hidden");
  config.dropout = 0;
  return config;
}

class TaggerLosses : public sluice::testing::OnDevice {
 protected:
  /// The sentences of a batch, as sentences() of the script draws them.
  Batch batch_of(const Json& golden, std::int64_t index) {
    std::int64_t state = (1000003 * (index + 1) + 17) % 2147483647;
    const auto draw = [&](std::int64_t below) {
      state = state * 48271 % 2147483647;
      return static_cast<std::int32_t>(state % below);
    };
    const std::int64_t rows = golden.at("rows"), time = golden.at("time");
    const auto cells = static_cast<std::size_t>(rows * time);
    std::vector<std::int32_t> tokens(cells, 0), labels(cells, 0), lengths, row_ids;
    for (std::int64_t row = 0; row < rows; ++row) {
      lengths.push_back(1 + draw(time));
      row_ids.push_back(static_cast<std::int32_t>(row));
      for (std::int64_t t = 0; t < lengths.back(); ++t) {
        const auto at = static_cast<std::size_t>(t * rows + row);
        tokens[at] = 4 + draw(golden.at("vocabulary").get<std::int64_t>() - 4);
        labels[at] = draw(golden.at("labels"));
      }
    }
    Batch batch;
    batch.extent = {rows, time, time};
    batch.source = put(tokens, Shape{time, rows});
    batch.target_out = put(labels, Shape{time, rows});
    batch.source_lengths = batch.target_lengths = put(lengths);
    batch.row_ids = put(row_ids);
    return batch;
  }

  /// The loss per label of each step, before its update.
  std::vector<double> train(const Json& golden, std::size_t steps) {
    Tagger model(config_of(golden));
    const layers::Parameters& parameters = model.parameters();
    model.parameters().allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, golden.at("seed"));
    const auto weights = golden.value("class_weights", std::vector<float>());
    if (!weights.empty()) model.class_weights().set(context_, weights);
    std::vector<Batch> batches;
    for (std::int64_t i = 0; i < golden.at("batches"); ++i) batches.push_back(batch_of(golden, i));
    const sluice::testing::GoldenOptimizer optimizer(context_, golden, parameters);
    runtime::ArenaPlanner planner;
    TaggerTraining plan(context_, model, planner, batches.front().extent, true);
    const runtime::Arena arena(*device_, planner);
    std::vector<double> losses;
    for (std::size_t step = 0; step < steps; ++step) {
      const Batch& batch = batches[step % batches.size()];
      const std::vector<std::int32_t> lengths = get<std::int32_t>(batch.source_lengths);
      Pass pass;
      pass.label_smoothing = golden.at("label_smoothing");
      const double scale = 1.0 / std::accumulate(lengths.begin(), lengths.end(), 0);
      pass.scale = put_number(scale);
      context_.zero(parameters.gradients());
      const Tensor sums = plan.forward_backward(context_, arena, batch, pass);
      losses.push_back(get<double>(sums)[kernels::loss::kLoss] * scale);
      optimizer.update(static_cast<std::int32_t>(step) + 1);
    }
    context_.synchronize();
    return losses;
  }
};

// Both sides compute in float32 and sum in different orders: a loss differs by some 1e-7 of itself,
// which training makes more of. 1e-5 leaves room for other machines' orders; a wrong factor shows
// in the first steps.
TEST_P(TaggerLosses, EqualOverAHundredSteps) {
  std::ifstream file(sluice::testing::source_path("tests/peers/goldens/tagger_losses.json"));
  const Json cases = Json::parse(file).at("cases");
  ASSERT_EQ(cases.size(), 4u);
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

INSTANTIATE_TEST_SUITE_P(Devices, TaggerLosses, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
