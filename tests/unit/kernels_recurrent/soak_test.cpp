#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
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

/// What an implementation's random stacks are drawn from, how many layers and directions they may
/// have together, and runs of each plan: one that takes many rows of wide layers alone, for which
/// the oracle takes a second a layer, has fewer of all three. Widths of inputs are rounded up to a
/// multiple of `input_multiple`, where the implementation takes no others.
struct Drawn {
  CaseLimits limits;
  std::int64_t most_layers;
  int runs_of_plan;
  std::int64_t input_multiple = 1;
};
Drawn drawn_for(std::string_view implementation, const runtime::Precision& precision) {
  if (implementation == "persistent-wide-cluster") {
    return {{precision.storage, 3, 180, 512}, 2, 1'000, precision.tf32 ? 8 : 1};
  }
  return {{precision.storage, 9, 60, 300}, 6, 200};
}

class RecurrentSoak : public ::testing::TestWithParam<SubjectAndPrecision> {};
// Only GPUs have such implementations.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrentSoak);
INSTANTIATE_TEST_SUITE_P(, RecurrentSoak, ::testing::ValuesIn(parameters()), parameter_name);

// Ten thousand runs, forward and backward, of random layers: none hangs, and none leaves anything
// behind that the next would take for its own. Of each plan's runs the last is compared.
TEST_P(RecurrentSoak, SurvivesTenThousandRuns) {
  const auto& [subject, name] = GetParam();
  const runtime::Precision precision = runtime::Precision::parse(name);
  const std::uint64_t first_seed = seed();
  SCOPED_TRACE(fmt::format("SLUICE_TEST_SEED={}", first_seed));
  std::mt19937_64 random(first_seed);
  const auto device = runtime::open_device(subject.device);
  const Candidate& candidate = subject.candidate();
  auto [limits, most_layers, runs_of_plan, input_multiple] = drawn_for(candidate.name, precision);
  int runs = 0;
  for (int drawn = 0; runs < kRuns && drawn < kMostDrawn; ++drawn) {
    limits.extras = drawn % 2 == 1;
    StackCase stack = unfilled_case(random, limits);
    stack.descriptor.tf32 = precision.tf32;
    stack.descriptor.input =
        (stack.descriptor.input + input_multiple - 1) / input_multiple * input_multiple;
    if (stack.descriptor.layers * stack.descriptor.directions > most_layers) continue;
    if (candidate.refuse(stack.descriptor, *device)) continue;
    fill_case(random, stack);
    stack.want_gradients = false;
    SCOPED_TRACE(describe(stack));
    const RunOptions options{subject.device, subject.implementation, runs_of_plan, precision.tf32};
    expect_close(run(stack, options), expected(stack), tolerance_of(precision));
    runs += runs_of_plan;
  }
  if (runs == 0) GTEST_SKIP() << "it has no " << name;
  EXPECT_GE(runs, kRuns);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
