#include <algorithm>
#include <cmath>
#include <numeric>

#include "decoding/search.h"
#include "models/language_model_decoding.h"
#include "unit/models/language_model_case.h"

namespace sluice::models {
namespace {

class LanguageModelTest : public LanguageModelFixture {
 protected:
  LanguageModelDecoding::Inputs inputs() {
    LanguageModelDecoding::Inputs inputs;
    inputs.count = kRows;
    if (!features_.empty()) {
      inputs.features = put<float>({kRows, GetParam().features}, features_);
    }
    return inputs;
  }

  // Steps rows in an order of their own, moved at every step, and holds log p of what is wanted
  // against `expected` [kTime, kRows]. Rows have been fed `fed` tokens already.
  void expect_steps(LanguageModelDecoding& decoding, std::size_t fed,
                    const std::vector<double>& expected) {
    const Tensor index = put<std::int32_t>({kRows}, {2, 0, 1});
    const Tensor logits = put<double>({kRows, kVocabulary}, std::vector<double>(27));
    std::vector<std::int32_t> input_of_row{2, 0, 1};
    decoding.start(context_, index, kRows);
    for (std::size_t t = fed; t < kTime; ++t) {
      std::vector<std::int32_t> tokens;
      for (const std::int32_t input : input_of_row) {
        tokens.push_back(t == fed ? 2 : fed_[t * kRows + static_cast<std::size_t>(input)]);
      }
      context_.upload<std::int32_t>(index, tokens);
      decoding.step(context_, index, logits, Tensor());
      const std::vector<double> values = context_.download<double>(logits);
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::size_t place = t * kRows + static_cast<std::size_t>(input_of_row[r]);
        if (expected[place] == 0) continue;  // past the row's end
        const double* row = values.data() + r * std::size_t{kVocabulary};
        double sum = 0;
        for (int v = 0; v < kVocabulary; ++v) sum += std::exp(row[v]);
        EXPECT_NEAR(row[wanted_[place]] - std::log(sum), expected[place], 1e-12)
            << "step " << t << ", input " << input_of_row[r];
      }
      context_.upload<std::int32_t>(index, std::vector<std::int32_t>{1, 2, 0});
      decoding.reorder(context_, index);
      input_of_row = {input_of_row[1], input_of_row[2], input_of_row[0]};
    }
  }
};

// Dropout masks depend on seed, step and row only, so the loss under one mask has a derivative; and
// what a step predicts changes by leaps alone.
TEST_P(LanguageModelTest, GradientEqualsFiniteDifference) {
  constexpr double kScale = 0.5;
  const Tensor step = put<std::int32_t>({1}, {4});
  const Pass pass{.label_smoothing = 0.1,
                  .scale = put<double>({1}, {kScale}),
                  .dropout = {11, step.data_as<const std::int32_t>(), 0},
                  .sampling = put<double>({1}, {0.4})};
  const Batch batch = whole();
  expect_gradients(kScale, [&] { return loss(batch, true, pass); });
}

TEST_P(LanguageModelTest, RowsScoreAsByThemselves) {
  const std::vector<double> together = scores(whole());
  for (int row = 0; row < 3; ++row) {
    const std::vector<double> alone = scores(part(0, kTime, {row}));
    for (std::size_t t = 0; t < kTime; ++t) {
      EXPECT_NEAR(alone[t], together[t * kRows + static_cast<std::size_t>(row)], 1e-12);
      EXPECT_EQ(alone[t] == 0,
                static_cast<std::int32_t>(t) >= lengths_[static_cast<std::size_t>(row)]);
    }
  }
}

TEST_P(LanguageModelTest, SumsAreThoseOfTheScores) {
  const Batch batch = whole();
  double sum = 0;
  for (const double score : scores(batch)) sum += score;
  EXPECT_NEAR(loss(batch, false, {}), -sum, 1e-12);
}

TEST_P(LanguageModelTest, StepsScoreAsTeacherForcing) {
  LanguageModelDecoding decoding(context_, model_, {kRows, kRows});
  decoding.encode(context_, inputs());
  expect_steps(decoding, 0, scores(whole()));
}

// Prompts of different lengths: of row r its first r tokens after bos.
TEST_P(LanguageModelTest, GoesOnFromPrompts) {
  std::vector<std::vector<std::int32_t>> prompts(kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t t = 0; t <= r; ++t) prompts[r].push_back(fed_[t * kRows + r]);
  }
  LanguageModelDecoding decoding(context_, model_, {kRows, kRows, 4});
  LanguageModelDecoding::Inputs given = inputs();
  given.prompts = prompts;
  decoding.encode(context_, given);
  const Tensor index = put<std::int32_t>({kRows}, {0, 1, 2});
  decoding.start(context_, index, kRows);
  context_.upload<std::int32_t>(index, std::vector<std::int32_t>(kRows, 2));
  const Tensor logits = put<double>({kRows, kVocabulary}, std::vector<double>(27));
  decoding.step(context_, index, logits, Tensor());
  const std::vector<double> values = context_.download<double>(logits);
  const std::vector<double> expected = scores(whole());
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t place = r * kRows + r;  // after r tokens
    if (expected[place] == 0) continue;
    const double* row = values.data() + r * std::size_t{kVocabulary};
    double sum = 0;
    for (int v = 0; v < kVocabulary; ++v) sum += std::exp(row[v]);
    EXPECT_NEAR(row[wanted_[place]] - std::log(sum), expected[place], 1e-12) << "row " << r;
  }
  given.prompts = {};  // and none again
  decoding.encode(context_, given);
  expect_steps(decoding, 0, expected);
}

// What state() gave, given to another decoder, goes on where the first one was.
TEST_P(LanguageModelTest, GoesOnFromGivenStates) {
  LanguageModelDecoding first(context_, model_, {kRows, kRows});
  first.encode(context_, inputs());
  const Tensor index = put<std::int32_t>({kRows}, {0, 1, 2});
  first.start(context_, index, kRows);
  const Tensor logits = put<double>({kRows, kVocabulary}, std::vector<double>(27));
  context_.upload<std::int32_t>(index,
                                std::vector<std::int32_t>(fed_.begin(), fed_.begin() + kRows));
  first.step(context_, index, logits, Tensor());

  LanguageModelDecoding::Inputs given;
  given.count = kRows;
  for (const StateTensor& state : first.state()) {
    (state.name == "h" ? given.states.h : given.states.c) = state.value;
  }
  std::vector<std::vector<std::int32_t>> next(kRows);
  for (std::size_t r = 0; r < kRows; ++r) next[r] = {fed_[kRows + r]};
  given.prompts = next;
  LanguageModelDecoding second(context_, model_, {kRows, kRows, 1});
  second.encode(context_, given);
  expect_steps(second, 1, scores(whole()));
}

// Hypotheses that beam search finds score as teacher forcing scores them.
TEST_P(LanguageModelTest, BeamSearchScoresWhatItFinds) {
  using decoding::BeamSearch;
  decoding::SearchOptions options;
  options.beam = 3;
  options.nbest = 3;
  options.max_length = 4;
  options.max_length_offset = 4;
  LanguageModelDecoding decoder(context_, model_, {kRows, std::int64_t{kRows} * options.beam});
  decoder.encode(context_, inputs());
  BeamSearch search(context_, decoder, options, {kRows, 0, DType::kFloat64});
  const std::vector<std::int32_t> nothing(kRows, 0);
  const auto found = decoding::fetch(context_, search.run(context_, nothing));
  ASSERT_EQ(found.size(), static_cast<std::size_t>(kRows));
  for (std::size_t input = 0; input < found.size(); ++input) {
    ASSERT_FALSE(found[input].empty());
    for (const decoding::Hypothesis& hypothesis : found[input]) {
      std::vector<std::int32_t> tokens = hypothesis.tokens;
      tokens.push_back(3);
      lengths_[input] = static_cast<std::int32_t>(tokens.size());
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        const std::size_t place = t * kRows + input;
        wanted_[place] = tokens[t];
        if (t > 0) fed_[place] = tokens[t - 1];
      }
      const std::vector<double> score = scores(part(0, kTime, {static_cast<int>(input)}));
      EXPECT_NEAR(hypothesis.score, std::accumulate(score.begin(), score.end(), 0.0), 1e-12);
    }
  }
}

TEST_P(LanguageModelTest, RefusesWhatDoesNotFit) {
  LanguageModelDecoding decoding(context_, model_, {kRows, kRows, 2});
  LanguageModelDecoding::Inputs given = inputs();
  given.count = kRows + 1;
  EXPECT_THROW(decoding.encode(context_, given), Error);
  given.count = kRows;
  std::vector<std::vector<std::int32_t>> prompts(kRows, {2, 4});
  prompts[1] = {2, 4, 5};
  given.prompts = prompts;
  EXPECT_THROW(decoding.encode(context_, given), Error);
  prompts[1] = {};
  EXPECT_THROW(decoding.encode(context_, given), Error);
  if (GetParam().features > 0) {
    given = {};
    given.count = kRows;
    EXPECT_THROW(decoding.encode(context_, given), Error);
    Batch batch = whole();
    batch.source = Tensor();
    EXPECT_THROW(loss(batch, false, {}), Error);
    EXPECT_THROW(model_.carry_states(context_, kRows), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LanguageModelTest,
    testing::Values(LanguageModelCase{"cpu", "lstm", 1}, LanguageModelCase{"cpu", "gru", 2},
                    LanguageModelCase{"cpu", "lstm", 2, 4},
                    LanguageModelCase{.device = "cpu", .cell = "lstm", .layers = 2, .tied = true},
                    LanguageModelCase{.device = "cpu", .cell = "lstm", .layers = 2, .extras = true},
                    LanguageModelCase{"cpu", "lstm", 2, 3, 4},
                    LanguageModelCase{"cpu", "gru", 1, 2}, LanguageModelCase{"test", "lstm", 2, 4},
                    LanguageModelCase{.device = "test", .cell = "gru", .layers = 1, .tied = true},
                    LanguageModelCase{"test", "lstm", 2, 3, 4}),
    case_name);

}  // namespace
}  // namespace sluice::models
