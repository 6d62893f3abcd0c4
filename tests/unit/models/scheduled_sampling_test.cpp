// Scheduled sampling is a pass over mixed tokens: its loss and gradients are those of a batch that
// brings these tokens along.
#include <cmath>

#include "kernels/loss/loss.h"
#include "models/language_model.h"
#include "models/seq2seq.h"
#include "models/token_scorer.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 4, kTime = 6, kVocabulary = 11;

class ScheduledSamplingOfModels : public testing::OnDevice {
 protected:
  Batch make_batch(const Ids& fed, const Ids& wanted) {
    Batch batch;
    batch.extent = {kRows, 3, kTime};
    batch.source = put(Ids{4, 5, 6, 7, 8, 9, 4, 4, 10, 5, 5, 6}, {3, kRows});
    batch.source_lengths = put(Ids{3, 2, 3, 1});
    batch.target_in = put(fed, {kTime, kRows});
    batch.target_out = put(wanted, {kTime, kRows});
    batch.target_lengths = put(lengths_);
    batch.row_ids = put(Ids{70, 7, 100001, 2});
    return batch;
  }

  // For each token fed what the step before takes for likeliest: of all tokens but padding, the one
  // whose score as a target is best.
  Ids predictions(const Model& model, const Ids& fed) {
    runtime::ArenaPlanner planner;
    const auto plan = model.training_plan(context_, planner, {kRows, 3, kTime}, false);
    const runtime::Arena arena(*device_, planner);
    Ids best(fed);
    std::vector<double> most(fed.size(), -INFINITY);
    for (std::int32_t token = 1; token < kVocabulary; ++token) {
      const Batch batch = make_batch(fed, Ids(fed.size(), token));
      const std::vector<double> scores =
          get<double>(dynamic_cast<TokenScorer&>(*plan).score(context_, arena, batch));
      for (std::size_t i = 0; i + kRows < fed.size(); ++i) {
        if (scores[i] <= most[i]) continue;
        most[i] = scores[i];
        best[i + kRows] = token;
      }
    }
    return best;
  }

  Ids mixed(const Ids& fed, const Ids& predicted, double probability, std::uint32_t stream) {
    Ids tokens(fed);
    const Ids ids{70, 7, 100001, 2};
    for (std::uint32_t t = 1; t < kTime; ++t) {
      for (std::size_t r = 0; r < kRows; ++r) {
        const runtime::DropoutKey key{11, 4, stream};
        const bool falls =
            key.word(static_cast<std::uint32_t>(ids[r]), t, 0) < probability * std::pow(2.0, 32);
        if (falls && static_cast<std::int32_t>(t) < lengths_[r])
          tokens[t * kRows + r] = predicted[t * kRows + r];
      }
    }
    return tokens;
  }

  struct Result {
    std::vector<double> sums;
    std::vector<float> gradients;
  };
  Result train(const Model& model, const Batch& batch, const Tensor& probability) {
    runtime::ArenaPlanner planner;
    const auto plan = model.training_plan(context_, planner, {kRows + 1, 4, kTime + 2}, true);
    const runtime::Arena arena(*device_, planner);
    Pass pass;
    pass.scale = put_number(0.5);
    pass.dropout = put_key({11, 4, 0});
    pass.sampling = probability;
    context_.zero(model.parameters().gradients());
    Result result;
    result.sums = get<double>(plan->forward_backward(context_, arena, batch, pass));
    result.gradients = get<float>(model.parameters().gradients());
    return result;
  }

  void expect_mixing(Model& model, std::uint32_t stream) {
    model.parameters().allocate(context_, runtime::DType::kFloat32, true);
    model.parameters().initialize(context_, 3);
    std::mt19937 random(5);
    Ids wanted(kTime * kRows), fed(wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = static_cast<std::int32_t>(4 + random() % (kVocabulary - 4));
      fed[i] = i < kRows ? 2 : wanted[i - kRows];
    }
    const Ids predicted = predictions(model, fed);
    const Result forced = train(model, make_batch(fed, wanted), Tensor());
    for (const double probability : {0.0, 0.6, 1.0}) {
      const Result sampled = train(model, make_batch(fed, wanted), put_number(probability));
      const Ids tokens = mixed(fed, predicted, probability, stream);
      EXPECT_EQ(tokens == fed, probability == 0);
      const Result expected = train(model, make_batch(tokens, wanted), Tensor());
      EXPECT_TRUE(testing::same_bits(sampled.sums, expected.sums)) << probability;
      EXPECT_TRUE(testing::same_bits(sampled.gradients, expected.gradients)) << probability;
      EXPECT_EQ(sampled.sums[kernels::loss::kLoss] == forced.sums[kernels::loss::kLoss],
                probability == 0);
    }
  }

  const Ids lengths_{6, 2, 4, 5};
};

TEST_P(ScheduledSamplingOfModels, Seq2Seq) {
  Seq2SeqConfig config;
  config.source_vocabulary = config.target_vocabulary = kVocabulary;
  config.embedding = 8;
  config.hidden = 16;
  config.decoder_layers = 2;
  config.dropout = 0;
  Seq2Seq model(config);
  expect_mixing(model, 3);
}

TEST_P(ScheduledSamplingOfModels, LanguageModel) {
  LanguageModelConfig config;
  config.vocabulary = kVocabulary;
  config.embedding = 8;
  config.hidden = 16;
  config.layers = 2;
  config.dropout = 0;
  LanguageModel model(config);
  expect_mixing(model, 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, ScheduledSamplingOfModels, testing::devices(),
                         testing::device_name);

}  // namespace
}  // namespace sluice::models
