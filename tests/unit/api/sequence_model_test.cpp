#include "sluice/sequence_model.h"

#include <algorithm>
#include <cmath>

#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

class SequenceModelTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("reverse", "tsv", "a b\tb a\nb c\tc b\na c b\tb c a\nc\tc\n", "embedding = 6\n");
    train("tags", "conll", "mr\tO\nann\tB-per\n\n", "kind = \"tagger\"\n");
  }
  SequenceModel load() { return SequenceModel::load(checkpoint("reverse"), placement()); }
};

TEST_P(SequenceModelTest, AnswersEachInputInItsPlace) {
  SequenceModel model = load();
  const Words inputs{"a b", "", "c", "a c b"};
  DecodeOptions options;
  options.max_length = 6;
  const std::vector<Decoded> together = model.decode(inputs, options);
  ASSERT_EQ(together.size(), inputs.size());
  EXPECT_EQ(together[0].source_pieces, (Words{"a", "b"}));
  EXPECT_EQ(together[1].hypotheses.at(0).text, "");
  options.batch = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Decoded alone = model.decode({&inputs[i], 1}, options).at(0);
    ASSERT_EQ(alone.hypotheses.size(), 1U) << i;
    EXPECT_EQ(alone.hypotheses[0].text, together[i].hypotheses.at(0).text) << i;
    EXPECT_NEAR(alone.hypotheses[0].score, together[i].hypotheses[0].score, 1e-4) << i;
  }
  EXPECT_TRUE(model.decode({}).empty());
}

TEST_P(SequenceModelTest, GivesTheBestFirstWithScoresThatScoreAgrees) {
  SequenceModel model = load();
  const Words inputs{"b c"};
  DecodeOptions options;
  options.beam = options.nbest = 4;
  options.max_length = 6;
  options.length_penalty = 0;
  options.attention = true;
  const Decoded decoded = model.decode(inputs, options).at(0);
  ASSERT_EQ(decoded.hypotheses.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_GE(decoded.hypotheses[i - 1].score, decoded.hypotheses[i].score);
  }
  std::size_t scored = 0;
  for (const Hypothesis& found : decoded.hypotheses) {
    ASSERT_EQ(found.attention.size(), found.pieces.size());
    for (const auto& row : found.attention) {
      ASSERT_EQ(row.size(), 2U);
      EXPECT_NEAR(row[0] + row[1], 1, 1e-4);
    }
    // Pieces that are no words of their own can't be given as text.
    if (!found.ended || std::ranges::count(found.pieces, "<unk>") > 0) continue;
    const std::pair<std::string, std::string> pair{inputs[0], found.text};
    const Scored score = model.score({&pair, 1}).at(0);
    EXPECT_NEAR(score.log_probability, found.score, 1e-3);
    EXPECT_EQ(score.tokens, std::ssize(found.pieces) + 1);
    ++scored;
  }
  EXPECT_GT(scored, 0U);
  EXPECT_NE(attention_svg(decoded, 3).find("<svg"), std::string::npos);
  EXPECT_EQ(error_of([&] { attention_svg(decoded, 4); }).code(), ErrorCode::kInvalidArgument);
}

TEST_P(SequenceModelTest, DrawsTheSameFromTheSameSeed) {
  SequenceModel model = load();
  const Words inputs{"a b", "c"};
  DecodeOptions options;
  options.max_length = 6;
  options.sample = SampleOptions{.samples = 3, .seed = 7};
  const auto texts = [&] {
    Words all;
    for (const Decoded& decoded : model.decode(inputs, options)) {
      EXPECT_EQ(decoded.hypotheses.size(), 3U);
      for (const Hypothesis& drawn : decoded.hypotheses) all.push_back(drawn.text);
    }
    return all;
  };
  const Words first = texts();
  EXPECT_EQ(texts(), first);
  options.sample->seed = 8;
  EXPECT_NE(texts(), first);
}

TEST_P(SequenceModelTest, BeginsWithPrefixes) {
  SequenceModel model = load();
  const Words inputs{"a b", "a b"};
  DecodeOptions options;
  options.max_length = 6;
  options.prefixes = {"c c", ""};
  const auto decoded = model.decode(inputs, options);
  EXPECT_TRUE(decoded[0].hypotheses.at(0).text.starts_with("c c")) << decoded[0].hypotheses[0].text;
  options.prefixes = {};
  EXPECT_EQ(decoded[1].hypotheses.at(0).text,
            model.decode(inputs, options)[0].hypotheses.at(0).text);
}

TEST_P(SequenceModelTest, RefusesWithoutBecomingUseless) {
  SequenceModel model = load();
  const Words inputs{"a b"}, broken{"a", "b \xff"};
  const auto before = model.decode(inputs);
  const auto refused = [&](const Words& given, const DecodeOptions& options) {
    return error_of([&] { model.decode(given, options); });
  };
  const Error utf8 = refused(broken, {});
  EXPECT_EQ(utf8.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(utf8.what()).find("input 2"), std::string::npos) << utf8.what();
  DecodeOptions options;
  options.batch = -1;
  EXPECT_NE(std::string(refused(inputs, options).what()).find("batch is -1"), std::string::npos);
  options = {};
  options.nbest = options.beam + 1;
  EXPECT_EQ(refused(inputs, options).code(), ErrorCode::kInvalidArgument);
  options = {};
  options.prefixes = {"a", "b"};
  EXPECT_EQ(refused(inputs, options).code(), ErrorCode::kInvalidArgument);
  options.prefixes = {"unseen"};
  EXPECT_EQ(refused(inputs, options).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(model.decode(inputs)[0].hypotheses.at(0).text, before[0].hypotheses.at(0).text);
}

TEST_P(SequenceModelTest, WarnsWhoItWasTold) {
  SequenceModel model = load();
  const Words inputs{"a unseen", "b"};
  ::testing::internal::CaptureStderr();
  model.decode(inputs);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("1 of 3 tokens in the input is not in the model's vocabulary"),
            std::string::npos)
      << warnings_[0];
  const std::vector<std::pair<std::string, std::string>> pairs{{"a", "unseen"}};
  model.score(pairs);
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_NE(warnings_[1].find("in the target"), std::string::npos) << warnings_[1];
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_P(SequenceModelTest, OpensItsOwnKindAlone) {
  const Error other = error_of([&] { SequenceModel::load(checkpoint("tags"), placement()); });
  EXPECT_EQ(other.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(other.what()).find("sluice tag"), std::string::npos) << other.what();
  EXPECT_EQ(error_of([&] { SequenceModel::load(at("nowhere"), placement()); }).code(),
            ErrorCode::kNotFound);
  const ModelInfo info = load().info();
  EXPECT_EQ(info.kind, "seq2seq");
  EXPECT_GT(info.parameters, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, SequenceModelTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
