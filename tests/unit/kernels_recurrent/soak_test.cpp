#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr int kRuns = 10'000;
// Of random stacks one in two hundred may be what an implementation takes, of those with many rows
// one in five thousand.
constexpr int kMostDrawn = 400'000;

/// Implementations whose blocks wait for each other, in each precision that any of them has.
std::vector<SubjectAndPrecision> parameters() {
  std::vector<SubjectAndPrecision> all;
  for (const Subject& subject : subjects()) {
    if (!subject.implementation.starts_with("persistent-")) continue;
    for (const char* precision : {"float32", "tf32", "bfloat16", "float16"}) {
      all.emplace_back(subject, precision);
    }
  }
  return all;
}

/// What some of an implementation's random stacks are drawn from, how many layers and directions
/// they may have together, and runs of each plan: one that takes many rows of wide layers alone,
/// for which the oracle takes a second a layer, has fewer of all three. Widths of inputs are
/// rounded up to a multiple of `input_multiple`, where the implementation takes no others.
struct Drawn {
  CaseLimits limits;
  std::int64_t most_layers;
  int runs_of_plan, runs = kRuns;
  std::int64_t input_multiple = 1;
  std::int64_t fewest_units = 0, most_units = 0;  ///< unless 0: in place of the limits'
};
std::vector<Drawn> drawn_for(std::string_view implementation, const runtime::Precision& precision) {
  const Drawn narrow{{precision.storage, 9, 60, 300}, 6, 200};
  if (implementation == "persistent-wide-cluster") {
    return {{{precision.storage, 3, 180, 512}, 2, 1'000, kRuns, precision.tf32 ? 8 : 1}};
  }
  if (implementation.starts_with("persistent-streamed")) {
    // Layers that mostly stay on chip, layers that don't, and those with four warpgroups of cells:
    // a few plans of each, as it takes seconds to fill in one of the last.
    constexpr int kPlans = 3, kRunsOfPlan = 600;
    std::vector<Drawn> all{narrow};
    all.front().runs = kRuns - 3 * kPlans * kRunsOfPlan;
    for (const auto& [fewest, most] : {std::pair{301, 2112}, {2113, 3168}, {3169, 4224}}) {
      all.push_back({.limits = {precision.storage, 4, 32, 60},
                     .most_layers = 1,
                     .runs_of_plan = kRunsOfPlan,
                     .runs = kPlans * kRunsOfPlan,
                     .fewest_units = fewest,
                     .most_units = most});
    }
    return all;
  }
  return {narrow};
}

class RecurrentSoak : public ::testing::TestWithParam<SubjectAndPrecision> {};
// Only GPUs have such implementations.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrentSoak);
INSTANTIATE_TEST_SUITE_P(, RecurrentSoak, ::testing::ValuesIn(parameters()), parameter_name);

/// Draws stacks that the subject takes and runs each of them until there are as many runs as
/// wanted. Of each plan's runs the last is compared. Returns the number of runs.
int soak(std::mt19937_64& random, const Subject& subject, const runtime::Precision& precision,
         const Drawn& from) {
  const auto device = runtime::open_device(subject.device);
  const Candidate& candidate = subject.candidate();
  CaseLimits limits = from.limits;
  int runs = 0;
  for (int drawn = 0; runs < from.runs && drawn < kMostDrawn; ++drawn) {
    limits.extras = drawn % 2 == 1;
    StackCase stack = unfilled_case(random, limits);
    Descriptor& d = stack.descriptor;
    d.tf32 = precision.tf32;
    d.input = (d.input + from.input_multiple - 1) / from.input_multiple * from.input_multiple;
    if (from.most_units > 0) {
      d.hidden = std::uniform_int_distribution(from.fewest_units, from.most_units)(random);
    }
    if (d.layers * d.directions > from.most_layers) continue;
    if (refusal(candidate, d, *device)) continue;
    stack.want_gradients = false;
    fill_case(random, stack);
    SCOPED_TRACE(describe(stack));
    const RunOptions options{subject.device, subject.implementation, from.runs_of_plan,
                             precision.tf32};
    expect_accurate(run(stack, options), stack, {.tf32 = precision.tf32});
    runs += from.runs_of_plan;
  }
  return runs;
}

// Ten thousand runs, forward and backward, of random layers: none hangs, and none leaves anything
// behind that the next would take for its own.
TEST_P(RecurrentSoak, SurvivesTenThousandRuns) {
  const auto& [subject, name] = GetParam();
  const runtime::Precision precision = runtime::Precision::parse(name);
  const std::uint64_t first_seed = seed();
  SCOPED_TRACE(fmt::format("SLUICE_TEST_SEED={}", first_seed));
  std::mt19937_64 random(first_seed);
  for (const Drawn& from : drawn_for(subject.implementation, precision)) {
    const int runs = soak(random, subject, precision, from);
    if (runs == 0 && from.most_units == 0) {
      GTEST_SKIP() << subject.implementation << " computes no " << name;
    }
    EXPECT_GE(runs, from.runs) << from.fewest_units << " to " << from.most_units << " units";
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
