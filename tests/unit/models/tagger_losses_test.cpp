// The first 100 training losses of the tagger beside torch's (first_losses.h).
#include "models/tagger.h"
#include "unit/models/first_losses.h"

namespace sluice::models {
namespace {

class TaggerLosses : public FirstLosses {
 protected:
  std::string script() const override { return "tagger_losses"; }

  std::unique_ptr<Model> model_of(const Json& golden) const override {
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
    return std::make_unique<Tagger>(config);
  }

  void prepare(const Json& golden, Model& model) override {
    const auto weights = golden.at("class_weights").get<std::vector<float>>();
    if (!weights.empty()) dynamic_cast<Tagger&>(model).class_weights().set(context_, weights);
  }

  /// As sentences() of the script.
  Batch batch_of(const Json& golden, std::int64_t index) override {
    Numbers numbers(index);
    const Extent extent = capacity_of(golden);
    const auto cells = static_cast<std::size_t>(extent.rows * extent.source_time);
    std::vector<std::int32_t> tokens(cells), labels(cells), lengths;
    for (std::int64_t row = 0; row < extent.rows; ++row) {
      const std::int64_t length = 1 + numbers.draw(extent.source_time);
      lengths.push_back(static_cast<std::int32_t>(length));
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<std::size_t>(t * extent.rows + row);
        tokens[at] = numbers.token(golden.at("vocabulary"));
        labels[at] = static_cast<std::int32_t>(numbers.draw(golden.at("labels")));
      }
    }
    Batch batch;
    batch.extent = extent;
    batch.source = put(tokens, {extent.source_time, extent.rows});
    batch.target_out = put(labels, {extent.target_time, extent.rows});
    batch.source_lengths = batch.target_lengths = put(lengths);
    batch.row_ids = put(lengths);  // nothing drops out
    return batch;
  }

  Extent capacity_of(const Json& golden) const override {
    return {golden.at("rows"), golden.at("time"), golden.at("time")};
  }
};

TEST_P(TaggerLosses, EqualTorchOverAHundredSteps) { compare("float32"); }
TEST_P(TaggerLosses, StayWithinTheRoundingOfTf32) { compare("tf32"); }
TEST_P(TaggerLosses, StayWithinTheRoundingOfBFloat16) { compare("bfloat16"); }
TEST_P(TaggerLosses, StayWithinTheRoundingOfFloat16) { compare("float16"); }

TEST_P(TaggerLosses, MistakesInTrainingShow) {
  if (std::string(GetParam()) != "cpu")
    GTEST_SKIP() << "this is a test of the tolerance, which has no device";
  compare_mistakes();
}

INSTANTIATE_TEST_SUITE_P(Devices, TaggerLosses, sluice::testing::devices(),
                         sluice::testing::device_name);

}  // namespace
}  // namespace sluice::models
