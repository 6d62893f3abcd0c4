#include <cmath>

#include "unit/models/language_model_case.h"

namespace sluice::models {
namespace {

constexpr std::int64_t kCut = 2;  // steps of the first of two batches

class CarriedStatesTest : public LanguageModelFixture {
 protected:
  CarriedStatesTest() { model_.carry_states(context_, kRows); }

  std::vector<std::vector<double>> kept(bool training) const {
    const RecurrentStates& states = model_.carried(training)->kept();
    std::vector<std::vector<double>> values{context_.download<double>(states.h)};
    if (states.c) values.push_back(context_.download<double>(states.c));
    return values;
  }
};

// A text that is scored in two batches scores as in one, though its rows have changed places
// meanwhile.
TEST_P(CarriedStatesTest, TwoBatchesScoreAsOne) {
  const std::vector<double> whole = scores(carried_part(0, kTime, {0, 1, 2}, {0, 0, 0}));
  const std::vector<double> first = scores(carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}));
  const std::vector<double> second = scores(carried_part(kCut, kTime, {2, 0, 1}, {3, 1, 2}));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), whole.begin()));
  const std::vector<std::size_t> rows{2, 0, 1};
  for (std::size_t t = kCut; t < kTime; ++t) {
    for (std::size_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(second[(t - kCut) * kRows + r], whole[t * kRows + rows[r]]);
    }
  }
}

TEST_P(CarriedStatesTest, RowsBeginAnewWhereTheyAreTold) {
  const std::vector<double> fresh = scores(carried_part(kCut, kTime, {0, 1, 2}, {0, 0, 0}));
  scores(carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}));
  const std::vector<double> mixed = scores(carried_part(kCut, kTime, {0, 1, 2}, {1, 0, 3}));
  for (std::size_t t = 0; t < kTime - kCut; ++t) {
    EXPECT_EQ(mixed[t * kRows + 1], fresh[t * kRows + 1]);
    if (fresh[t * kRows + 2] == 0) continue;  // past the row's end
    EXPECT_NE(mixed[t * kRows + 2], fresh[t * kRows + 2]);
  }
}

// What validation carries is not what training carries.
TEST_P(CarriedStatesTest, TrainingAndEvaluationHaveTheirOwn) {
  const Pass pass{.scale = put<double>({1}, {1.0})};
  loss(carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}), true, pass);
  const auto training = kept(true);
  EXPECT_NE(training, kept(false));
  loss(carried_part(0, kCut, {1, 2, 0}, {0, 0, 0}), false, pass);
  EXPECT_EQ(training, kept(true));
}

// The states that a batch starts from are constants: the gradient ends there.
TEST_P(CarriedStatesTest, GradientEqualsFiniteDifferenceFromFixedStates) {
  constexpr double kScale = 0.5;
  const Tensor step = put<std::int32_t>({1}, {4});
  const Pass pass{.label_smoothing = 0.1,
                  .scale = put<double>({1}, {kScale}),
                  .dropout = {11, step.data_as<const std::int32_t>(), 0}};
  loss(carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}), true, pass);
  const auto start = kept(true);
  const Batch batch = carried_part(kCut, kTime, {0, 1, 2}, {1, 2, 0});
  expect_gradients(kScale, [&] {
    const RecurrentStates& states = model_.carried(true)->kept();
    context_.upload<double>(states.h, start[0]);
    if (states.c) context_.upload<double>(states.c, start[1]);
    return loss(batch, true, pass);
  });
}

// A batch padded by rows of length 0 leaves room that isn't there alone.
TEST_P(CarriedStatesTest, PaddingIsNotKept) {
  LanguageModel other(config_of(GetParam()));
  other.parameters().allocate(context_, DType::kFloat64, false);
  other.parameters().initialize(context_, 3);
  other.carry_states(context_, 2);
  runtime::ArenaPlanner planner;
  LanguageModelTraining plan(context_, other, planner, {4, 1, 7}, false);
  const runtime::Arena arena(*device_, planner);
  plan.evaluate(context_, arena, carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}), {});
  const std::vector<double> h = context_.download<double>(other.carried(false)->kept().h);
  loss(carried_part(0, kCut, {0, 1, 2}, {0, 0, 0}), false, {});
  const std::vector<double> of_three = kept(false)[0];
  const auto width = static_cast<std::size_t>(other.config().width());
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(GetParam().layers); ++layer) {
    for (std::size_t i = 0; i < 3 * width; ++i) {  // the row of zeros and two rows
      EXPECT_EQ(h[layer * 3 * width + i], of_three[layer * 4 * width + i]);
      EXPECT_EQ(i < width, h[layer * 3 * width + i] == 0);
    }
  }
}

TEST_P(CarriedStatesTest, RefusesABatchWithoutStarts) {
  EXPECT_THROW(loss(whole(), false, {}), Error);
}

INSTANTIATE_TEST_SUITE_P(All, CarriedStatesTest,
                         testing::Values(LanguageModelCase{"cpu", "lstm", 2},
                                         LanguageModelCase{"cpu", "gru", 1},
                                         LanguageModelCase{"cpu", "lstm", 2, 0, 4},
                                         LanguageModelCase{"test", "lstm", 1},
                                         LanguageModelCase{"test", "gru", 2}),
                         case_name);

}  // namespace
}  // namespace sluice::models
