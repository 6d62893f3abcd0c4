#include "sluice/language_model.h"

#include <cmath>
#include <set>

#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

class LanguageModelApiTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("text", "text", "a b c a b c\nb c a b\nc a b c a\n", "kind = \"language_model\"\n");
    folder_->write("captions.npy", testing::npy_file({3, 2}, std::vector<float>{1, 0, 0, 1, 1, 1}));
    folder_->write("captions.data", "a b\nb c\nc\n");
    train("captions",
          "[tokenizer]\nkind = \"words\"\n[training]\nmax_steps = 10\n[data]\ntext = \"" +
              at("captions.data") + "\"\nfeatures = \"" + at("captions.npy") +
              "\"\n[model]\nkind = \"language_model\"\nhidden = 6\n");
  }
  LanguageModel load(const std::string& name) {
    return LanguageModel::load(checkpoint(name), placement());
  }
};

Words texts_of(const std::vector<Hypothesis>& found) {
  Words texts;
  for (const Hypothesis& one : found) texts.push_back(one.text);
  return texts;
}

TEST_P(LanguageModelApiTest, DrawsTextsThatFollowFromSeedAndNumber) {
  LanguageModel model = load("text");
  EXPECT_EQ(model.features(), 0);
  GenerateOptions options;
  options.sample.samples = 5;
  options.max_length = 8;
  const Words drawn = texts_of(model.generate(options));
  ASSERT_EQ(drawn.size(), 5U);
  EXPECT_EQ(texts_of(model.generate(options)), drawn);
  options.batch = 2;
  EXPECT_EQ(texts_of(model.generate(options)), drawn);
  options.sample.seed = 2;
  EXPECT_NE(texts_of(model.generate(options)), drawn);
  EXPECT_EQ(model.generate().size(), 1U);
}

TEST_P(LanguageModelApiTest, SearchesWithScoresThatScoreAgrees) {
  LanguageModel model = load("text");
  GenerateOptions options;
  options.search = BeamOptions{.beam = 4, .nbest = 3, .length_penalty = 0};
  options.max_length = 8;
  options.prefix = "b c";
  const auto found = model.generate(options);
  ASSERT_EQ(found.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(found[i].text.starts_with("b c")) << found[i].text;
    if (i > 0) {
      EXPECT_GE(found[i - 1].score, found[i].score);
    }
    const Scored score = model.score({&found[i].text, 1}).at(0);
    EXPECT_NEAR(score.log_probability, found[i].score, 1e-3);
  }
}

TEST_P(LanguageModelApiTest, HoldsTextsToWords) {
  LanguageModel model = load("text");
  GenerateOptions options;
  options.max_length = 8;
  options.banned = {"c a"};
  options.no_repeat = 3;
  options.search = BeamOptions{.beam = 6, .nbest = 4, .groups = 2, .forced = {"b b", "c"}};
  const auto found = model.generate(options);
  EXPECT_GE(found.size(), 2U);
  for (const Hypothesis& one : found) {
    EXPECT_NE(one.text.find("b b"), std::string::npos) << one.text;
    EXPECT_NE(one.text.find("c"), std::string::npos) << one.text;
    EXPECT_EQ(one.text.find("c a"), std::string::npos) << one.text;
    EXPECT_NEAR(model.score({&one.text, 1}).at(0).log_probability, one.score, 1e-3);
  }
  options.search.reset();
  options.sample.samples = 20;
  for (const Hypothesis& one : model.generate(options)) {
    EXPECT_EQ(one.text.find("c a"), std::string::npos) << one.text;
  }
  options.sample.without_replacement = true;
  const Words drawn = texts_of(model.generate(options));
  EXPECT_EQ(std::set<std::string>(drawn.begin(), drawn.end()).size(), 20U);
  for (const std::string& text : drawn) EXPECT_EQ(text.find("c a"), std::string::npos) << text;

  const auto said = [&] {
    return std::string(error_of([&] { model.generate_part(options); }).what());
  };
  EXPECT_NE(said().find("take no banned words"), std::string::npos) << said();
  options.banned = {};
  options.no_repeat = 0;
  EXPECT_NE(said().find("without replacement has ended"), std::string::npos) << said();
}

TEST_P(LanguageModelApiTest, ScoresEachTextByItself) {
  LanguageModel model = load("text");
  const Words texts{"a b c", "", "c"};
  const auto together = model.score(texts);
  ASSERT_EQ(together.size(), 3U);
  EXPECT_EQ(together[0].tokens, 4);
  EXPECT_EQ(together[1].tokens, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(together[i].log_probability, 0);
    EXPECT_NEAR(model.score({&texts[i], 1}).at(0).log_probability, together[i].log_probability,
                1e-4);
  }
}

TEST_P(LanguageModelApiTest, BeginsFromVectors) {
  LanguageModel model = load("captions");
  EXPECT_EQ(model.features(), 2);
  GenerateOptions options;
  options.sample.samples = 2;
  options.max_length = 4;
  options.features = read_feature_vectors(at("captions.npy"));
  EXPECT_EQ(options.features.width, 2);
  EXPECT_EQ(model.generate(options).size(), 6U);
  options.features.values.pop_back();
  const auto refused = [&] {
    return std::string(error_of([&] { model.generate(options); }).what());
  };
  EXPECT_EQ(refused(), "5 numbers make no vectors of 2 features");
  options.features.values.push_back(NAN);
  EXPECT_EQ(refused(), "number 5 of the features is nan");
  options.features = {};
  EXPECT_NE(refused().find("none are given"), std::string::npos);
}

TEST_P(LanguageModelApiTest, WarnsOfTextsThatNothingAllowedEnds) {
  const Words all{"a", "b", "c"};
  {
    LanguageModel model = load("text");
    GenerateOptions options;
    options.banned = all;
    options.min_length = 1;
    options.search = BeamOptions{.beam = 3};
    EXPECT_TRUE(model.generate(options).empty());
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_EQ(warnings_[0],
              "1 of 1 text has no answer (the first is text 1): nothing that is allowed has ended; "
              "ban or force less, or take a wider beam");
    warnings_.clear();
    options.min_length = 0;
    EXPECT_EQ(texts_of(model.generate(options)), Words{""});
    EXPECT_TRUE(warnings_.empty());
  }
  LanguageModel model = load("captions");
  GenerateOptions options;
  options.features = read_feature_vectors(at("captions.npy"));
  options.max_length = 3;
  options.no_repeat = 1;  // each word once: with two words banned one text of a word is left
  options.banned = {"a", "b"};
  options.search = BeamOptions{.beam = 4, .nbest = 4};
  const auto found = model.generate(options);
  ASSERT_EQ(found.size(), 12U);  // four for each vector
  EXPECT_TRUE(warnings_.empty());
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(found[i].ended, i % 4 < 2) << i;
    EXPECT_EQ(std::isfinite(found[i].score), i % 4 < 2) << i;
    EXPECT_TRUE(found[i].text == "" || (i % 4 < 2 && found[i].text == "c")) << found[i].text;
  }
  options.banned = all;
  options.min_length = 1;
  EXPECT_EQ(model.generate(options).size(), 12U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0].substr(0, 58),
            "3 of 3 vectors have no answer (the first is vector 1): not");
}

TEST_P(LanguageModelApiTest, RefusesWhatContradictsItself) {
  LanguageModel model = load("text");
  GenerateOptions options;
  options.batch = -1;
  EXPECT_EQ(error_of([&] { model.generate(options); }).code(), ErrorCode::kInvalidArgument);
  options = {};
  options.prefix = "unseen";
  EXPECT_EQ(error_of([&] { model.generate(options); }).code(), ErrorCode::kInvalidArgument);
  options = {};
  options.min_length = 9;
  options.max_length = 8;
  EXPECT_EQ(error_of([&] { model.generate(options); }).code(), ErrorCode::kInvalidArgument);
  options = {};
  options.search.emplace();
  options.sample.without_replacement = true;
  EXPECT_STREQ(
      error_of([&] { model.generate(options); }).what(),
      "a search draws nothing, so it can't draw without replacement; leave out one of both");
  const Words broken{"a", "\xff"};
  EXPECT_EQ(error_of([&] { model.score(broken); }).code(), ErrorCode::kFormat);
}

TEST_P(LanguageModelApiTest, WarnsWhoItWasTold) {
  LanguageModel model = load("text");
  const Words texts{"a unseen"};
  model.score(texts);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("in the text is not in the model's vocabulary"), std::string::npos)
      << warnings_[0];
}

INSTANTIATE_TEST_SUITE_P(Devices, LanguageModelApiTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
