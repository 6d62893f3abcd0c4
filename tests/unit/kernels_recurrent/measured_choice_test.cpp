#include "kernels/recurrent/measured_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/test/test_device.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent {
namespace {

class MeasuredChoice : public testing::OnDevice {
 protected:
  MeasuredChoice() { context_.set_tuning(&tuning_); }

  static Descriptor problem(bool training) {
    Descriptor d;
    d.input = 5;
    d.hidden = 16;
    d.time = 3;
    d.rows = 4;
    d.training = training;
    return d;
  }

  /// Names of those that could be chosen.
  std::vector<std::string> accepting(const Descriptor& d) {
    std::vector<std::string> names;
    for (const Candidate& candidate : candidates(context_.device())) {
      if (!candidate.peer && !refusal(candidate, d, context_.device())) {
        names.emplace_back(candidate.name);
      }
    }
    return names;
  }

  runtime::Tuning tuning_;
};

TEST_P(MeasuredChoice, NotesWhatItMeasured) {
  for (const bool training : {false, true}) {
    const Descriptor d = problem(training);
    const std::vector<std::string> names = accepting(d);
    if (names.size() < 2) GTEST_SKIP() << "only one implementation runs here";
    const Choice choice = make_plan(context_, d);
    const std::string* noted = tuning_.find(problem_of(context_, d));
    ASSERT_NE(noted, nullptr);
    EXPECT_EQ(*noted, choice.plan->implementation());
    EXPECT_NE(std::find(names.begin(), names.end(), *noted), names.end()) << *noted;
  }
  EXPECT_EQ(tuning_.choices().size(), 2u) << "training is a problem of its own";
}

// The slowest or the fastest: what was noted is taken without asking again.
TEST_P(MeasuredChoice, GoesByWhatWasNoted) {
  const Descriptor d = problem(false);
  const std::vector<std::string> names = accepting(d);
  if (names.size() < 2) GTEST_SKIP() << "only one implementation runs here";
  for (const std::string& name : names) {
    tuning_.record(problem_of(context_, d), name);
    const Choice choice = make_plan(context_, d);
    EXPECT_EQ(choice.plan->implementation(), name);
    const auto slower = [](const Declined& declined) {
      return declined.reason.find("slower") != std::string::npos;
    };
    EXPECT_EQ(std::count_if(choice.declined.begin(), choice.declined.end(), slower),
              std::ssize(names) - 1);
  }
  EXPECT_EQ(tuning_.choices().size(), 1u);
}

TEST_P(MeasuredChoice, FallsBackToTheRule) {
  const Descriptor d = problem(false);
  const std::string by_rule = accepting(d).front();
  tuning_.record(problem_of(context_, d), "nonesuch");
  EXPECT_EQ(make_plan(context_, d).plan->implementation(), by_rule);
  context_.set_tuning(nullptr);
  EXPECT_EQ(make_plan(context_, d).plan->implementation(), by_rule);
}

// Another machine, size or precision is measured anew.
TEST_P(MeasuredChoice, TellsProblemsApart) {
  const Descriptor d = problem(true);
  const std::string text = problem_of(context_, d);
  EXPECT_NE(text.find(context_.device().model()), std::string::npos);
  const auto differs = [&](void (*change)(Descriptor&)) {
    Descriptor changed = d;
    change(changed);
    return problem_of(context_, changed) != text;
  };
  EXPECT_TRUE(differs([](Descriptor& c) { c.rows = 5; }));
  EXPECT_TRUE(differs([](Descriptor& c) { c.time = 2; }));
  EXPECT_TRUE(differs([](Descriptor& c) { c.cell = CellType::kGru; }));
  EXPECT_TRUE(differs([](Descriptor& c) { c.dtype = DType::kBFloat16; }));
  EXPECT_TRUE(differs([](Descriptor& c) { c.training = false; }));
  runtime::Context rounded = context_;
  rounded.set_precision(runtime::Precision::parse("tf32"));
  EXPECT_NE(problem_of(rounded, d), text);
}

// A run that finds no memory and its successor that finds some must agree.
TEST(MeasuredChoiceWithoutMemory, NotesTheRule) {
  runtime::test::TestDevice device(64);
  runtime::Context context(device);
  runtime::Tuning tuning;
  context.set_tuning(&tuning);
  Descriptor d;
  d.input = d.hidden = 64;
  d.time = d.rows = 4;
  d.training = true;
  runtime::Context by_rule(device);
  const std::string rule(make_plan(by_rule, d).plan->implementation());
  EXPECT_EQ(make_plan(context, d).plan->implementation(), rule);
  if (tuning.choices().empty()) GTEST_SKIP() << "only one implementation runs here";
  EXPECT_EQ(*tuning.find(problem_of(context, d)), rule);
}

TEST(LeastMilliseconds, LeavesOutTheFirstRunsAndSoonGivesUpWhatIsFar) {
  int runs = 0;
  const auto starting_slowly = [&] { return ++runs <= 2 ? 1000.0 : 10.0 - runs; };
  EXPECT_EQ(least_milliseconds(starting_slowly, 100), 3.0);
  EXPECT_EQ(runs, 7);
  runs = 0;
  const auto slow = [&] {
    ++runs;
    return 1000.0;
  };
  EXPECT_EQ(least_milliseconds(slow, 100), 1000.0);
  EXPECT_EQ(runs, 3);
  runs = 0;
  EXPECT_EQ(least_milliseconds(slow, std::numeric_limits<double>::infinity()), 1000.0);
  EXPECT_EQ(runs, 7);
}

INSTANTIATE_TEST_SUITE_P(Devices, MeasuredChoice, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::recurrent
