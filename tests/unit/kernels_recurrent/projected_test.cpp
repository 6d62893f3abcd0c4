#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kName = "persistent-projected";

std::string parameter_name(
    const ::testing::TestParamInfo<std::tuple<const char*, DType>>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param),
                     base::name_of(std::get<1>(parameter.param)));
}

/// Stacks of projected layers in one launch: only on devices that have them.
class RecurrentProjected : public OnCandidate<std::tuple<const char*, DType>> {
 protected:
  RecurrentProjected() : OnCandidate(kName) {}

  /// With a projection of its own for each layer.
  Descriptor stack_of(std::int64_t layers, std::int64_t hidden) {
    Descriptor d;
    d.layers = layers;
    d.input = draw(6, 150);
    d.hidden = hidden;
    for (std::int64_t l = 0; l < layers; ++l) {
      d.projections.push_back(draw(6, std::min<std::int64_t>(hidden / 3, 300)));
    }
    d.time = 5;
    d.rows = 8;
    d.dtype = std::get<1>(GetParam());
    return d;
  }

  StackCase case_of(const Descriptor& descriptor, std::int64_t time, std::int64_t rows) {
    StackCase stack;
    stack.descriptor = descriptor;
    stack.time = time;
    stack.rows = rows;
    fill_case(random_, stack);
    return stack;
  }
  /// Runs a stack that is planned for a little more and compares.
  void compare(Descriptor stack, std::int64_t time, std::int64_t rows) {
    stack.time = time + draw(0, 2);
    stack.rows = rows + draw(0, 3);
    const StackCase one = case_of(stack, time, rows);
    SCOPED_TRACE(describe(one));
    if (gpu_lacks(stack)) return;
    const Tensors got = run(one, options());
    expect_accurate(got, one);
    RunOptions replayed = options();
    replayed.rounds = 3;  // of which the second and the third are graphs
    EXPECT_EQ(run(one, replayed), got);
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentProjected,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16)),
                         parameter_name);

// Each takes tiles of another size, or several of them.
TEST_P(RecurrentProjected, EqualsOracleWithAnyNumberOfRows) {
  for (const std::int64_t most : {1, 8, 16, 32, 64, 128, 200}) {
    compare(stack_of(draw(1, 4), draw(20, 400)), draw(1, 6), draw((most + 1) / 2, most));
  }
}

// Weights in registers alone, in shared memory, and read anew in each step.
TEST_P(RecurrentProjected, EqualsOracleAtEveryWidth) {
  for (const std::int64_t hidden : {20, 96, 97, 700, 1536}) {
    Descriptor stack = stack_of(2, hidden);
    compare(stack, 3, draw(1, 8));
    compare(stack, 3, draw(33, 61));
  }
  Descriptor deep = stack_of(2, 1000);
  deep.input = draw(700, 1000);
  deep.projections = {draw(300, 320), draw(250, 320)};
  for (const std::int64_t rows : {3, 13, 29, 61, 120}) compare(deep, 3, rows);
}

// In few steps tiles of rows go one by one below the last layer, in more of them together.
TEST_P(RecurrentProjected, EqualsOracleHoweverTilesGo) {
  for (const std::int64_t time : {1, 4, 5, 9}) {
    compare(stack_of(4, draw(20, 300)), time, draw(65, 128));
  }
}

TEST_P(RecurrentProjected, EqualsOracleOverManySteps) {
  for (const std::int64_t rows : {2, 100}) compare(stack_of(3, draw(60, 200)), 60, rows);
}

TEST_P(RecurrentProjected, OnePlanServesRunsOfAnyExtent) {
  Descriptor stack = stack_of(3, 250);
  stack.time = 7;
  stack.rows = 140;
  if (gpu_lacks(stack)) GTEST_SKIP() << "this GPU cannot run the implementation";
  std::vector<StackCase> cases;
  for (int i = 0; i < 8; ++i) {
    cases.push_back(case_of(stack, draw(1, 7), i % 2 == 0 ? draw(1, 20) : draw(20, 140)));
    cases.back().weights = cases.front().weights;
  }
  const std::vector<Tensors> results = run_all(cases, options());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(describe(cases[i]));
    expect_accurate(results[i], cases[i]);
  }
}

// Also of a single step, whose end is its beginning.
TEST_P(RecurrentProjected, UpdatesStatesInPlace) {
  for (const std::int64_t time : {1, 2}) {
    for (const std::int64_t rows : {1, 20}) {
      Descriptor layers = stack_of(2, draw(20, 400));
      layers.rows = rows;
      if (gpu_lacks(layers)) GTEST_SKIP() << "this GPU cannot run the implementation";
      StackCase stack;
      stack.descriptor = layers;
      stack.time = time;
      stack.rows = rows;
      fill_case_in_place(random_, stack);
      SCOPED_TRACE(describe(stack));
      expect_accurate(run(stack, options()), stack);
    }
  }
}

TEST_P(RecurrentProjected, RefusesWhatItDoesNotDo) {
  Descriptor stack = stack_of(4, 1536);
  if (gpu_lacks(stack)) GTEST_SKIP() << "this GPU cannot run the implementation";
  Descriptor other = stack;
  other.projections.clear();
  EXPECT_EQ(refusal(other), "it is for layers with projections");
  other = stack;
  other.training = true;
  EXPECT_EQ(refusal(other), "it is for inference");
  other = stack;
  other.directions = 2;
  EXPECT_EQ(refusal(other), "it has one direction");
  other = stack;
  other.projections = {100, 100, 513, 100};
  EXPECT_EQ(refusal(other), "32 blocks of a layer have 16 features each, not 513 in all");
  other = stack;
  other.hidden = 3000;
  EXPECT_TRUE(refusal(other).has_value());
  other = stack;
  other.projections = {320, 320, 448, 448};
  other.rows = 128;
  EXPECT_EQ(refusal(other), std::nullopt);
  other.rows = 129;
  EXPECT_EQ(refusal(other),
            "its blocks have no place for 896 features of input and state, and would read weights "
            "for every 64 rows");
  other = stack;
  other.peepholes = true;
  EXPECT_EQ(refusal(other), "it has no peepholes");
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
