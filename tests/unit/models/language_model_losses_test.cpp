// The first 100 training losses of the language model beside torch's (first_losses.h): of rows that
// begin anew in every batch, of rows that begin from a feature vector, and of stretches of a text
// whose states are carried from batch to batch.
#include <algorithm>
#include <numeric>

#include "models/language_model.h"
#include "unit/models/first_losses.h"

namespace sluice::models {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kBos = 2, kEos = 3;

struct Row {
  std::vector<float> features;
  Tokens fed, wanted;
};

// As ragged_rows of the script.
std::vector<Row> ragged_rows(const nlohmann::json& golden, std::int64_t batch) {
  Numbers numbers(batch);
  std::vector<Row> rows(golden.at("rows").get<std::size_t>());
  for (Row& row : rows) {
    row.wanted.resize(1 + static_cast<std::size_t>(numbers.draw(golden.at("time").get<int>() - 1)));
    for (std::int32_t& token : row.wanted) token = numbers.token(golden.at("vocabulary"));
    row.features.resize(golden.at("features"));
    for (float& feature : row.features) feature = numbers.number();
    row.fed = {kBos};
    row.fed.insert(row.fed.end(), row.wanted.begin(), row.wanted.end());
    row.wanted.push_back(kEos);
  }
  return rows;
}

// As stretches of the script, of one batch.
std::vector<Row> stretch_rows(const nlohmann::json& golden, std::int64_t batch) {
  const auto bptt = golden.at("bptt").get<std::ptrdiff_t>();
  const std::ptrdiff_t steps = bptt * golden.at("batches").get<std::ptrdiff_t>();
  std::vector<Row> rows(golden.at("rows").get<std::size_t>());
  Numbers numbers(0);
  Tokens text{kBos};
  while (std::ssize(text) < 1 + steps * std::ssize(rows))
    text.push_back(numbers.token(golden.at("vocabulary")));
  auto begin = text.begin() + batch * bptt;
  for (Row& row : rows) {
    row.fed.assign(begin, begin + bptt);
    row.wanted.assign(begin + 1, begin + 1 + bptt);
    begin += steps;
  }
  return rows;
}

class LanguageModelLosses : public FirstLosses {
 protected:
  std::string script() const override { return "language_model_losses"; }

  std::unique_ptr<Model> model_of(const Json& golden) const override {
    LanguageModelConfig config;
    config.cell = golden.at("cell");
    config.vocabulary = golden.at("vocabulary");
    config.embedding = golden.at("embedding");
    config.hidden = golden.at("hidden");
    config.layers = golden.at("layers");
    config.features = golden.at("features");
    config.tie_embeddings = golden.at("tied").get<bool>() ? "decoder" : "none";
    config.dropout = 0;
    return std::make_unique<LanguageModel>(config);
  }

  void prepare(const Json& golden, Model& model) override {
    if (golden.at("bptt") == 0) return;
    dynamic_cast<LanguageModel&>(model).carry_states(context_, golden.at("rows"));
  }

  Batch batch_of(const Json& golden, std::int64_t index) override {
    if (golden.at("bptt") == 0) return upload(ragged_rows(golden, index));
    Batch batch = upload(stretch_rows(golden, index));
    // Where rows start: from zero, then each from where it ended.
    Tokens from(golden.at("rows").get<std::size_t>());
    if (index > 0) std::iota(from.begin(), from.end(), 1);
    batch.extent.source_time = 1;
    batch.source = put(from, {1, std::ssize(from)});
    return batch;
  }

  Extent capacity_of(const Json& golden) const override {
    const auto time = golden.at("time").get<std::int64_t>();
    return {golden.at("rows"), 1, std::max(time, golden.at("bptt").get<std::int64_t>())};
  }

 private:
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
};

TEST_P(LanguageModelLosses, EqualTorchOverAHundredSteps) { compare("float32"); }
TEST_P(LanguageModelLosses, StayWithinTheRoundingOfTf32) { compare("tf32"); }
TEST_P(LanguageModelLosses, StayWithinTheRoundingOfBFloat16) { compare("bfloat16"); }
TEST_P(LanguageModelLosses, StayWithinTheRoundingOfFloat16) { compare("float16"); }

TEST_P(LanguageModelLosses, MistakesInTrainingShow) {
  if (std::string(GetParam()) != "cpu")
    GTEST_SKIP() << "this is a test of the tolerance, which has no device";
  compare_mistakes();
}

INSTANTIATE_TEST_SUITE_P(Devices, LanguageModelLosses, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
