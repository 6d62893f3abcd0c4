// The first 100 training losses of the language model equal those of the same model in torch, from
// the same initial weights and data and without dropout (tests/peers/language_model_losses.py
// writes the goldens): of rows that begin anew in every batch, of rows that begin from a feature
// vector, and of stretches of a text whose states are carried from batch to batch.
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/loss/loss.h"
#include "models/language_model_training.h"
#include "unit/support/golden_optimizer.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"

namespace sluice::models {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kBos = 2, kEos = 3;

Json read_cases() {
  const char* path = "tests/peers/goldens/language_model_losses.json";
  std::ifstream file(sluice::testing::source_path(path));
  return Json::parse(file).at("cases");
}

LanguageModelConfig config_of(const Json& golden) {
  LanguageModelConfig config;
  config.cell = golden.at("cell");
  config.vocabulary = golden.at("vocabulary");
  config.embedding = golden.at("embedding");
  config.hidden = golden.at("hidden");
  config.layers = golden.at("layers");
  config.features = golden.at("features");
  config.tie_embeddings = golden.at("tied").get<bool>() ? "decoder" : "none";
  config.dropout = 0;
  return config;
}

// As Numbers of the script.
class Numbers {
 public:
  explicit Numbers(std::int64_t batch) : state_((1000003 * (batch + 1) + 17) % 2147483647) {}
  std::int64_t draw(std::int64_t below) {
    state_ = state_ * 48271 % 2147483647;
    return state_ % below;
  }
  std::int32_t token(const Json& golden) {
    return static_cast<std::int32_t>(4 + draw(golden.at("vocabulary").get<std::int64_t>() - 4));
  }

 private:
  std::int64_t state_;
};

struct Row {
  std::vector<float> features;
  Tokens fed, wanted;
};

// As ragged_rows of the script.
std::vector<Row> ragged_rows(const Json& golden, std::int64_t batch) {
  Numbers numbers(batch);
  std::vector<Row> rows(golden.at("rows").get<std::size_t>());
  for (Row& row : rows) {
    row.wanted.resize(1 + static_cast<std::size_t>(numbers.draw(golden.at("time").get<int>() - 1)));
    for (std::int32_t& token : row.wanted) token = numbers.token(golden);
    row.features.resize(golden.at("features"));
    for (float& feature : row.features) {
      feature = static_cast<float>(static_cast<double>(numbers.draw(2001) - 1000) / 1000);
    }
    row.fed = {kBos};
    row.fed.insert(row.fed.end(), row.wanted.begin(), row.wanted.end());
    row.wanted.push_back(kEos);
  }
  return rows;
}

// As stretches of the script, of one batch.
std::vector<Row> stretch_rows(const Json& golden, std::int64_t batch) {
  const auto bptt = golden.at("bptt").get<std::ptrdiff_t>();
  const std::ptrdiff_t steps = bptt * golden.at("batches").get<std::ptrdiff_t>();
  std::vector<Row> rows(golden.at("rows").get<std::size_t>());
  Numbers numbers(0);
  Tokens text{kBos};
  while (std::ssize(text) < 1 + steps * std::ssize(rows)) text.push_back(numbers.token(golden));
  auto begin = text.begin() + batch * bptt;
  for (Row& row : rows) {
    row.fed.assign(begin, begin + bptt);
    row.wanted.assign(begin + 1, begin + 1 + bptt);
    begin += steps;
  }
  return rows;
}

class LanguageModelLosses : public sluice::testing::OnDevice {
 protected:
  // Padded to the longest row, time-major.
  Tensor put_tokens(const std::vector<Row>& rows, std::int64_t time, Tokens Row::*tokens) {
    Tokens padded(static_cast<std::size_t>(time) * rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Tokens& of_row = rows[r].*tokens;
      for (std::size_t t = 0; t < of_row.size(); ++t) padded[t * rows.size() + r] = of_row[t];
    }
    return put(padded, {time, std::ssize(rows)});
  }

  Batch upload(const std::vector<Row>& rows) {
    Tokens lengths, ids;
    std::vector<float> features;
    for (const Row& row : rows) {
      lengths.push_back(static_cast<std::int32_t>(row.wanted.size()));
      ids.push_back(static_cast<std::int32_t>(ids.size()));
      features.insert(features.end(), row.features.begin(), row.features.end());
    }
    const std::int64_t time = *std::max_element(lengths.begin(), lengths.end());
    const std::int64_t count = std::ssize(rows);
    Batch batch;
    batch.extent = {count, features.empty() ? 0 : 1, time};
    if (!features.empty()) {
      batch.source = put(features, {1, count, std::ssize(rows[0].features)});
    }
    batch.target_in = put_tokens(rows, time, &Row::fed);
    batch.target_out = put_tokens(rows, time, &Row::wanted);
    batch.target_lengths = put(lengths);
    batch.row_ids = put(ids);
    return batch;
  }

  std::vector<Batch> batches_of(const Json& golden) {
    std::vector<Batch> batches;
    for (std::int64_t index = 0; index < golden.at("batches"); ++index) {
      if (golden.at("bptt") == 0) {
        batches.push_back(upload(ragged_rows(golden, index)));
        continue;
      }
      batches.push_back(upload(stretch_rows(golden, index)));
      // Where rows start: from zero, then each from where it ended.
      Tokens from(golden.at("rows").get<std::size_t>());
      if (index > 0) std::iota(from.begin(), from.end(), 1);
      batches.back().extent.source_time = 1;
      batches.back().source = put(from, {1, std::ssize(from)});
    }
    return batches;
  }

  // The loss per target token of each step, before its update.
  std::vector<double> train(const Json& golden, std::size_t steps) {
    LanguageModel model(config_of(golden));
    const layers::Parameters& parameters = model.parameters();
    model.parameters().allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, golden.at("seed"));
    if (golden.at("bptt") > 0) model.carry_states(context_, golden.at("rows"));
    const std::vector<Batch> batches = batches_of(golden);
    const sluice::testing::GoldenOptimizer optimizer(context_, golden, parameters);
    runtime::ArenaPlanner planner;
    const std::int64_t time =
        std::max(golden.at("time").get<std::int64_t>(), golden.at("bptt").get<std::int64_t>());
    LanguageModelTraining plan(context_, model, planner, {golden.at("rows"), 1, time}, true);
    const runtime::Arena arena(*device_, planner);

    std::vector<double> losses;
    for (std::size_t step = 0; step < steps; ++step) {
      const Batch& batch = batches[step % batches.size()];
      const Tokens lengths = get<std::int32_t>(batch.target_lengths);
      const double scale = 1.0 / std::accumulate(lengths.begin(), lengths.end(), 0);
      Pass pass;
      pass.label_smoothing = golden.at("label_smoothing");
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

// Both sides compute in float32 and sum in different orders: a loss differs by some 1e-7 of itself.
// 1e-5 leaves room for what training makes of that and for other machines' orders; a wrong factor,
// or a state that isn't carried, shows in the first steps.
TEST_P(LanguageModelLosses, EqualOverAHundredSteps) {
  const Json cases = read_cases();
  ASSERT_EQ(cases.size(), 6u);
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

INSTANTIATE_TEST_SUITE_P(Devices, LanguageModelLosses, testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
