#include "sluice/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/language_model.h"
#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;

constexpr double kNone = -std::numeric_limits<double>::infinity();

class BeamApiTest : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    const std::string texts = "a b c a b c\nb c a b\nc a b c a\n";
    train("text", "text", texts, "kind = \"language_model\"\nlayers = 2\n");
    train("gru", "text", texts, "kind = \"language_model\"\ncell = \"gru\"\n");
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

/// Ids of the pieces of a text of words.
Ids ids_of(const LanguageModel& model, const Words& words) {
  const Words vocabulary = model.vocabulary();
  Ids ids;
  for (const std::string& word : words) {
    const auto at = std::find(vocabulary.begin(), vocabulary.end(), word);
    EXPECT_NE(at, vocabulary.end()) << word;
    ids.push_back(static_cast<std::int32_t>(at - vocabulary.begin()));
  }
  return ids;
}

BeamStart start_of(const RowStates& states, std::int64_t inputs, bool every_beam = false) {
  BeamStart start;
  start.inputs = inputs;
  start.every_beam = every_beam;
  start.h = states.h;
  start.c = states.c;
  start.tokens = states.tokens;
  return start;
}

TEST_P(BeamApiTest, FindsWhatAGeneratingSearchFinds) {
  for (const char* name : {"text", "gru"}) {
    LanguageModel model = load(name);
    GenerateOptions generate;
    generate.search = BeamOptions{.beam = 4, .nbest = 3, .length_penalty = 0};
    generate.max_length = 40;
    const auto expected = model.generate(generate);
    BeamStepOptions options;
    options.steps = 40;
    options.beam = 4;
    options.nbest = 3;
    const auto found = model.beam({}, options).finished();
    ASSERT_EQ(found.size(), 1U);
    ASSERT_EQ(found[0].size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[0][i].text, expected[i].text);
      EXPECT_EQ(found[0][i].score, expected[i].score);
      EXPECT_EQ(found[0][i].row, 0);
      const Scored score = model.score({&found[0][i].text, 1}).at(0);
      EXPECT_NEAR(score.log_probability, found[0][i].score, 1e-3);
    }
  }
}

TEST_P(BeamApiTest, GoesOnAfterTexts) {
  LanguageModel model = load("text");
  const StateShape shape = model.state_shape();
  const Words texts{"b c", "a", ""};
  const RowStates states = model.read(texts);
  EXPECT_EQ(std::ssize(states.h), shape.layers * 3 * shape.width);
  EXPECT_EQ(std::ssize(states.c), shape.layers * 3 * shape.hidden);
  EXPECT_EQ(states.tokens, (Ids{ids_of(model, {"c"})[0], ids_of(model, {"a"})[0], 2}));

  BeamStepOptions options;
  options.steps = 6;
  options.beam = 3;
  const std::vector<double> scores{-1, -2, 0};
  BeamStart start = start_of(states, 3);
  start.scores = scores;
  const Beam beam = model.beam(start, options);
  const auto finished = beam.finished();
  ASSERT_EQ(finished.size(), 3U);
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    // log p of what follows a text is that of both together less that of the text, which two
    // sequences have in common.
    std::optional<double> of_text;
    for (const FinishedSequence& one : finished[i]) {
      EXPECT_EQ(one.row, static_cast<std::int64_t>(i));
      const std::string both =
          texts[i].empty() || one.text.empty() ? texts[i] + one.text : texts[i] + " " + one.text;
      const double rest = model.score({&both, 1}).at(0).log_probability - (one.score - scores[i]);
      if (of_text) {
        EXPECT_NEAR(rest, *of_text, 1e-3) << both;
        ++compared;
      }
      of_text = rest;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST_P(BeamApiTest, TakesStepsInParts) {
  for (const char* name : {"text", "gru"}) {
    LanguageModel model = load(name);
    const Words texts{"a b", "c"};
    const RowStates begin = model.read(texts);
    BeamStepOptions options;
    options.steps = options.min_length = 6;
    options.beam = 3;
    const Beam whole = model.beam(start_of(begin, 2), options);
    ASSERT_EQ(whole.steps(), 6);
    options.steps = options.min_length = 3;
    const Beam first = model.beam(start_of(begin, 2), options);
    const RowStates states = first.states();
    BeamStart start = start_of(states, 2, true);
    const auto of_first = first.scores();
    start.scores = std::span(of_first).last(6);
    const Beam second = model.beam(start, options);

    const auto joined = [](auto a, const auto& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    EXPECT_EQ(joined(first.tokens(), second.tokens()), whole.tokens());
    EXPECT_EQ(joined(first.parents(), second.parents()), whole.parents());
    // A device may multiply otherwise where rows begin apart.
    const auto scores = joined(of_first, second.scores()), expected = whole.scores();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(scores[i], expected[i], 1e-4);
  }
}

TEST_P(BeamApiTest, ChoosesOnlyWhatTheMaskAllows) {
  LanguageModel model = load("text");
  const auto vocabulary = static_cast<std::size_t>(model.vocabulary_size());
  const Ids ids = ids_of(model, {"a", "b"});
  std::vector<std::uint8_t> allowed(2 * vocabulary);
  allowed[static_cast<std::size_t>(ids[0])] = 1;
  allowed[vocabulary + static_cast<std::size_t>(ids[1])] = 1;
  BeamStepOptions options;
  options.steps = 3;
  options.beam = 2;
  options.allowed = allowed;
  options.mask_inputs = 2;
  BeamStart start;
  start.inputs = 2;
  const Beam beam = model.beam(start, options);
  // One token may follow, so each input has one sequence.
  const Ids step{ids[0], 0, ids[1], 0};
  Ids expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), step.begin(), step.end());
  EXPECT_EQ(beam.tokens(), expected);
  const auto scores = beam.scores();
  EXPECT_EQ(scores[1], kNone);
  EXPECT_LT(scores[8], scores[4]);
  EXPECT_TRUE(beam.finished()[0].empty());
}

TEST_P(BeamApiTest, BeginsFromVectors) {
  LanguageModel model = load("captions");
  const FeatureVectors vectors = read_feature_vectors(at("captions.npy"));
  const Words empty(3);
  const RowStates states = model.read(empty, vectors);
  BeamStepOptions options;
  options.steps = 40;
  const auto found = model.beam(start_of(states, 3), options).finished();
  GenerateOptions generate;
  generate.features = vectors;
  generate.search = BeamOptions{.length_penalty = 0};
  generate.max_length = 40;
  const auto expected = model.generate(generate);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i].at(0).text, expected[i].text);
  EXPECT_NE(std::string(error_of([&] { model.beam({}, options); }).what())
                .find("give the states that LanguageModel::read makes"),
            std::string::npos);
}

TEST_P(BeamApiTest, RefusesInOneSentence) {
  LanguageModel model = load("text");
  BeamStepOptions options;
  BeamStart start;
  const auto refused = [&] {
    return std::string(error_of([&] { model.beam(start, options); }).what());
  };
  start.inputs = 0;
  EXPECT_EQ(refused(), "inputs is 0; it must be in 1..16777216");
  start.inputs = 2;
  const std::vector<float> few(3);
  start.h = start.c = few;
  EXPECT_NE(refused().find("h holds 3 numbers; states "), std::string::npos);
  start.c = {};
  EXPECT_EQ(refused(), "h and c belong together: give both or none");
  RowStates states = model.read(Words{"a", "b"});
  states.h[1] = NAN;
  start = start_of(states, 2);
  EXPECT_EQ(refused(), "number 1 of h is nan");
  states.h[1] = 0;
  start = start_of(states, 2);
  const Ids token{1};
  start.tokens = token;
  EXPECT_EQ(refused(), "1 tokens are given for 2 rows");
  const Ids wild{1, 99};
  start.tokens = wild;
  EXPECT_NE(refused().find("begins with token 99; the vocabulary has"), std::string::npos);
  start = start_of(states, 2);
  options.beam = 4000;
  EXPECT_NE(refused().find("beam is 4000; the vocabulary has"), std::string::npos);
  options = {};
  start.inputs = std::int64_t{1} << 23;
  EXPECT_NE(refused().find("8388608 inputs with 5 beams are 41943040 rows"), std::string::npos);
  start = start_of(states, 2);
  options.nbest = 6;
  EXPECT_NE(refused().find("nbest is 6"), std::string::npos);
  options = {};
  options.steps = 0;
  EXPECT_EQ(refused(), "steps is 0; it must be in 1..1048576");
  options = {};
  const std::vector<std::uint8_t> nothing(static_cast<std::size_t>(model.vocabulary_size()));
  options.allowed = nothing;
  EXPECT_EQ(refused(), "the mask of step 0 and input 0 allows no token that may be chosen");
  options.mask_inputs = 2;
  EXPECT_NE(refused().find("the mask has"), std::string::npos);
  options.mask_steps = std::int64_t{1} << 40;
  EXPECT_EQ(refused(), "the mask is of 1099511627776 steps; it must be of 1 or 1");
  // It stays usable.
  EXPECT_EQ(model.beam({}, {}).steps(), 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, BeamApiTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
