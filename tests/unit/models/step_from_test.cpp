#include <gtest/gtest.h>

#include <vector>

#include "models/language_model_decoding.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

constexpr std::int64_t kInputs = 4, kVocabulary = 40;

/// Steps of a language model whose rows take their parents' states first.
class StepFrom : public testing::OnDevice {
 protected:
  StepFrom() : model_(config()) {
    model_.parameters().allocate(context_, DType::kFloat32, false);
    model_.parameters().initialize(context_, 8);
  }

  static LanguageModelConfig config() {
    LanguageModelConfig config;
    config.vocabulary = kVocabulary;
    config.embedding = 24;
    config.hidden = 32;
    config.layers = 2;
    return config;
  }

  /// Logits of some steps from a prompt on, with a reorder before each but `without`, in one call
  /// or in two.
  std::vector<float> steps(std::int64_t rows, int without, bool in_one) {
    const std::vector<std::vector<std::int32_t>> prompts{{2, 7, 30}, {2}, {2, 11}, {2, 5}};
    LanguageModelDecoding decoding(context_, model_, {kInputs, rows, 3});
    LanguageModelDecoding::Inputs given;
    given.count = kInputs;
    given.prompts = prompts;
    decoding.encode(context_, given);
    decoding.start(context_, numbers(rows, [](int r) { return r % kInputs; }), rows);
    std::vector<float> all;
    for (int t = 0; t < 3; ++t) {
      const Tensor logits = poisoned(DType::kFloat32, {rows, kVocabulary});
      const Tensor tokens = numbers(rows, [&](int r) { return (7 * r + t) % kVocabulary; });
      const Tensor parents = numbers(rows, [&](int r) { return (r * 3 + 1) % rows; });
      if (t != without && in_one) {
        decoding.step_from(context_, parents, tokens, logits, Tensor());
      } else {
        if (t != without) decoding.reorder(context_, parents);
        decoding.step(context_, tokens, logits, Tensor());
      }
      const auto values = context_.download<float>(logits);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  template <typename Number>
  Tensor numbers(std::int64_t rows, const Number& number) {
    std::vector<std::int32_t> all;
    for (int r = 0; r < rows; ++r) all.push_back(static_cast<std::int32_t>(number(r)));
    return put(all);
  }

  LanguageModel model_;
};

// To the bit. Rows are more than tokens, or fewer; the first step takes tokens from prompts.
TEST_P(StepFrom, IsReorderAndStep) {
  for (const char* precision : {"float32", "tf32", "bfloat16"}) {
    context_.set_precision(runtime::Precision::parse(precision));
    for (const std::int64_t rows : {20, 60, 640}) {
      for (const int without : {-1, 0}) {
        SCOPED_TRACE(::testing::Message() << precision << ", " << rows << " rows, " << without);
        EXPECT_EQ(steps(rows, without, true), steps(rows, without, false));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StepFrom, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::models
