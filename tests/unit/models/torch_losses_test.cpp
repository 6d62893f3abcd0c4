// The first 100 training losses of the model equal those of the same model in torch, from the same
// initial weights and data and without dropout (tests/peers/seq2seq_losses.py writes the goldens).
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/corpus.h"
#include "kernels/loss/loss.h"
#include "models/seq2seq_training.h"
#include "unit/support/golden_optimizer.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"

namespace sluice::models {
namespace {

using Json = nlohmann::json;

Json read_cases() {
  std::ifstream file(sluice::testing::source_path("tests/peers/goldens/seq2seq_losses.json"));
  return Json::parse(file).at("cases");
}

Seq2SeqConfig config_of(const Json& golden) {
  Seq2SeqConfig config;
  config.cell = golden.at("cell");
  config.attention = golden.at("attention");
  config.bidirectional = golden.at("bidirectional");
  config.encoder_layers = golden.at("encoder_layers");
  config.decoder_layers = golden.at("decoder_layers");
  config.source_vocabulary = golden.at("source_vocabulary");
  config.target_vocabulary = golden.at("target_vocabulary");
  config.embedding = golden.at("embedding");
  config.hidden = golden.at("hidden");
  config.dropout = 0;
  return config;
}

// The examples of a batch, as tokens() of the script draws them.
data::PairCorpus examples_of(const Json& golden, std::int64_t batch) {
  std::int64_t state = (1000003 * (batch + 1) + 17) % 2147483647;
  const auto draw = [&](std::int64_t below) {
    state = state * 48271 % 2147483647;
    return state % below;
  };
  const auto draw_tokens = [&](std::int64_t count, std::int64_t vocabulary) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(4 + draw(vocabulary - 4));
    return tokens;
  };
  data::PairCorpus corpus;
  for (std::int64_t row = 0; row < golden.at("rows"); ++row) {
    const std::int64_t source_length = 1 + draw(golden.at("source_time"));
    const std::int64_t target_length = 1 + draw(golden.at("target_time").get<std::int64_t>() - 1);
    corpus.source.push_back(draw_tokens(source_length, golden.at("source_vocabulary")));
    corpus.target.push_back(draw_tokens(target_length, golden.at("target_vocabulary")));
  }
  return corpus;
}

class TorchLosses : public sluice::testing::OnDevice {
 protected:
  Batch upload(const data::Batch& host) {
    Batch batch;
    batch.extent = {host.rows, host.source_time, host.target_time};
    batch.source = put(host.source, {host.source_time, host.rows});
    batch.source_lengths = put(host.source_lengths);
    batch.target_in = put(host.target_in, {host.target_time, host.rows});
    batch.target_out = put(host.target_out, {host.target_time, host.rows});
    batch.target_lengths = put(host.target_lengths);
    batch.row_ids = put(std::vector<std::int32_t>(host.global_row.begin(), host.global_row.end()));
    return batch;
  }

  std::vector<Batch> batches_of(const Json& golden) {
    std::vector<Batch> batches;
    for (std::int64_t index = 0; index < golden.at("batches"); ++index) {
      const data::PairCorpus corpus = examples_of(golden, index);
      std::vector<std::int64_t> rows(corpus.source.size());
      for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int>(row);
      batches.push_back(upload(corpus.assemble(rows)));
    }
    return batches;
  }

  // The loss per target token of each step, before its update.
  std::vector<double> train(const Json& golden, std::size_t steps) {
    Seq2Seq model(config_of(golden));
    const layers::Parameters& parameters = model.parameters();
    model.parameters().allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, golden.at("seed"));
    const std::vector<Batch> batches = batches_of(golden);
    const sluice::testing::GoldenOptimizer optimizer(context_, golden, parameters);
    runtime::ArenaPlanner planner;
    Seq2SeqTraining plan(context_, model, planner,
                         {golden.at("rows"), golden.at("source_time"), golden.at("target_time")},
                         true);
    const runtime::Arena arena(*device_, planner);

    std::vector<double> losses;
    for (std::size_t step = 0; step < steps; ++step) {
      const Batch& batch = batches[step % batches.size()];
      const std::vector<std::int32_t> lengths = get<std::int32_t>(batch.target_lengths);
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
// and over 100 steps training has made that no more than 4e-7. 1e-5 leaves room for other machines'
// orders; a wrong factor shows in the first steps.
TEST_P(TorchLosses, EqualOverAHundredSteps) {
  const Json cases = read_cases();
  ASSERT_EQ(cases.size(), 3u);
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

INSTANTIATE_TEST_SUITE_P(Devices, TorchLosses, testing::devices(), sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
