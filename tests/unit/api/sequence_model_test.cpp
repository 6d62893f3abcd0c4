#include "sluice/sequence_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "unit/api/trained_models.h"
#include "unit/support/message_of.h"

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

TEST_P(SequenceModelTest, HoldsAnswersToWords) {
  SequenceModel model = load();
  const Words inputs{"a b", "", "b c", "c"};
  DecodeOptions options;
  options.max_length = 6;
  options.beam = options.nbest = 6;
  options.banned = {"a", "c c", "unseen"};  // what can't be spelt no answer holds
  options.forced = {{"b b"}, {}, {}, {"c", "b"}};
  options.batch = 2;
  const auto decoded = model.decode(inputs, options);
  EXPECT_EQ(decoded[1].hypotheses.at(0).text, "");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_FALSE(decoded[i].hypotheses.empty());
    for (const Hypothesis& one : decoded[i].hypotheses) {
      const std::string text = " " + one.text + " ";
      EXPECT_EQ(text.find(" a "), std::string::npos) << text;
      EXPECT_EQ(text.find(" c c "), std::string::npos) << text;
      for (const std::string& word : options.forced[i]) {
        EXPECT_NE(text.find(" " + word + " "), std::string::npos) << text;
      }
      if (inputs[i].empty() || std::ranges::count(one.pieces, "<unk>") > 0) continue;
      const std::pair<std::string, std::string> pair{inputs[i], one.text};
      EXPECT_NEAR(model.score({&pair, 1}).at(0).log_probability, one.score, 1e-3);
    }
  }
  options.forced = {};
  options.banned = {};
  options.no_repeat = 1;
  const auto expect_no_word_twice = [&] {
    const Decoded first = model.decode(inputs, options).at(0);
    EXPECT_FALSE(first.hypotheses.empty());
    for (const Hypothesis& one : first.hypotheses) {
      Words pieces = one.pieces;
      std::ranges::sort(pieces);
      EXPECT_EQ(std::ranges::adjacent_find(pieces), pieces.end()) << one.text;
    }
  };
  expect_no_word_twice();
  options.sample = SampleOptions{.samples = 6};
  expect_no_word_twice();
}

TEST_P(SequenceModelTest, DrawsNoAnswerTwiceWithoutReplacement) {
  SequenceModel model = load();
  const Words inputs{"a b", "c", "b c"};
  DecodeOptions options;
  options.max_length = 5;
  options.sample = SampleOptions{.samples = 12, .seed = 5, .without_replacement = true};
  const auto together = model.decode(inputs, options);
  options.batch = 1;
  const auto alone = model.decode(inputs, options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::set<Words> seen;
    ASSERT_EQ(together[i].hypotheses.size(), 12U);
    for (std::size_t j = 0; j < 12; ++j) {
      const Hypothesis& one = together[i].hypotheses[j];
      EXPECT_TRUE(seen.insert(one.pieces).second) << one.text;
      EXPECT_EQ(one.text, alone[i].hypotheses.at(j).text);
    }
  }
  options.sample->seed = 6;
  EXPECT_NE(model.decode(inputs, options)[0].hypotheses.at(0).normalised_score,
            alone[0].hypotheses.at(0).normalised_score);
}

TEST_P(SequenceModelTest, SearchesInGroupsAndByCoverage) {
  SequenceModel model = load();
  const Words inputs{"a b c", "c"};
  DecodeOptions options;
  options.max_length = 6;
  options.beam = 6;
  options.nbest = 4;
  options.groups = 3;
  options.diversity = 2;
  for (const Decoded& decoded : model.decode(inputs, options)) {
    std::set<Words> seen;
    EXPECT_GE(decoded.hypotheses.size(), 3U);
    for (const Hypothesis& one : decoded.hypotheses) {
      EXPECT_TRUE(seen.insert(one.pieces).second) << one.text;
    }
  }
  options = {};
  options.coverage_penalty = 0.7;
  options.length_penalty = 0;
  options.attention = true;
  for (const Decoded& decoded : model.decode(inputs, options)) {
    const Hypothesis& one = decoded.hypotheses.at(0);
    // But for where the step of the end looked, which is not given.
    EXPECT_LE(one.normalised_score, one.score);
    double least = 0;
    for (std::size_t s = 0; s < decoded.source_pieces.size(); ++s) {
      double sum = 0;
      for (const auto& row : one.attention) sum += row[s];
      least += std::log(std::min(sum, 1.0));
    }
    EXPECT_GE(one.normalised_score, one.score + 0.7 * least - 1e-4);
  }
}

TEST_P(SequenceModelTest, SaysWhichWordsCannotBeHeld) {
  SequenceModel model = load();
  const Words inputs{"a b", "c"};
  const auto said = [&](const auto& set) {
    DecodeOptions options;
    options.max_length = 4;
    set(options);
    return testing::message_of([&] { model.decode(inputs, options); });
  };
  using O = DecodeOptions;
  EXPECT_EQ(said([](O& o) {
              o.forced = {{"a"}, {"b unseen"}};
            })
                .find("the forced 'b unseen' of "
                      "input 2: the model can't "
                      "write its token 2"),
            0U);
  EXPECT_EQ(said([](O& o) {
              o.forced = {{"a b c"}, {"a c", "b b", "b", "c"}};
            }),
            "");  // the single words stand in the others
  EXPECT_EQ(said([](O& o) {
              o.forced = {{"a b c"}, {"a c", "b b", "c b"}};
            }),
            "the words forced on answers of input 2 take 6 tokens one after the other, but answers "
            "have at most 4; force less, or allow longer answers");
  EXPECT_EQ(said([](O& o) {
              o.forced = {{}, {"b a c"}};
              o.banned = {"a c"};
            }),
            "the forced 'b a c' of input 2 holds 'a c', which is banned");
  EXPECT_EQ(said([](O& o) {
              o.forced = {{"a b a"}, {}};
              o.no_repeat = 1;
            }),
            "the forced 'a b a' of input 1 repeats 1 token in a row, which no_repeat rules out");
  EXPECT_EQ(said([](O& o) { o.forced = {{"a"}}; }),
            "forced words are given for 1 input, not for 2; give none, or some for each");
  EXPECT_EQ(said([](O& o) { o.banned = {"a", ""}; }), "the banned '' holds no token");
  EXPECT_EQ(said([](O& o) { o.forced = {{" "}, {}}; }), "the forced ' ' of input 1 holds no token");
  EXPECT_NE(said([](O& o) {
              o.forced = {{"a"}, {}};
              o.sample.emplace();
            }).find("can't be forced"),
            std::string::npos);
  EXPECT_NE(said([](O& o) {
              o.sample = SampleOptions{.top_k = 3, .without_replacement = true};
            }).find("take no top_k or top_p"),
            std::string::npos);
  EXPECT_NE(said([](O& o) {
              o.sample = SampleOptions{.samples = 5000, .without_replacement = true};
            }).find("samples is 5000"),
            std::string::npos);
  EXPECT_NE(said([](O& o) { o.groups = 2; }).find("beam is 5, which 2 groups"), std::string::npos);
  for (const bool without_replacement : {false, true}) {
    const SampleOptions sample{.without_replacement = without_replacement};
    EXPECT_EQ(said([&](O& o) {
                o.sample = sample;
                o.groups = 5;
              }),
              "groups is 5, but answers that are drawn have no beams; take 1, or search");
    EXPECT_EQ(
        said([&](O& o) {
          o.sample = sample;
          o.coverage_penalty = 0.5;
        }),
        "coverage_penalty is 0.5, but answers that are drawn don't compete; take 0, or search");
  }
}

TEST_P(SequenceModelTest, WarnsOfInputsWithoutAnAnswer) {
  SequenceModel model = load();
  const Words inputs{"a b", "c", "b"};
  DecodeOptions options;
  options.max_length = 4;
  options.no_repeat = 1;
  options.forced = {{}, {"a b", "b c"}, {}};  // which would hold b twice, or overlap
  options.min_length = 4;                     // and there are but three words
  const auto decoded = model.decode(inputs, options);
  for (const Decoded& one : decoded) EXPECT_TRUE(one.hypotheses.empty());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0].find("3 of 3 inputs have no answer (the first is input 1)"), 0U)
      << warnings_[0];
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
