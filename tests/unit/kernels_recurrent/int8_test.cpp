#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <random>

#include "runtime/context.h"
#include "sluice/error.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Ours: what a peer computes in 8 bits is not ours to vouch for.
std::vector<Subject> our_subjects() {
  std::vector<Subject> all = int8_subjects();
  std::erase_if(all, [](const Subject& one) { return one.candidate().peer; });
  return all;
}

/// Products of 8 bits, held against the oracle that rounds what it multiplies.
class RecurrentInt8 : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    Descriptor d;
    d.input = d.hidden = d.time = d.rows = 1;
    d.int8 = true;
    if (const auto reason = GetParam().refusal(d)) {
      GTEST_SKIP() << GetParam().implementation << " declines: " << *reason;
    }
  }

  StackCase draw(const CaseLimits& limits) {
    StackCase stack = unfilled_case(random_, limits);
    stack.descriptor.training = false;
    stack.descriptor.int8 = true;
    fill_case(random_, stack);
    return stack;
  }
  RunOptions options(const std::string& device = "cpu") const {
    return {device, GetParam().implementation};
  }

  /// Which integer a number becomes hangs on float32's rounding where it lies next to the middle of
  /// two: with h off by 1e-7 one in 50,000 numbers becomes the other one, of the some 5,000 of a
  /// case. It changes sums by a 127th of a weight: some 1e-3 of a row's values. So most cases are
  /// as exact as float32, and none is off by more than if one in twenty became the other one.
  void compare(const CaseLimits& limits, int trials, const std::string& device) {
    int exact = 0;
    for (int trial = 0; trial < trials; ++trial) {
      const StackCase stack = draw(limits);
      SCOPED_TRACE(describe(stack));
      const Tensors got = run(stack, options(device)), want = expected(stack);
      expect_accurate(got, stack);
      const bool close = std::ranges::all_of(want, [&](const auto& one) {
        return relative_error(got.at(one.first), one.second) <= tolerance_of(DType::kFloat32);
      });
      exact += close ? 1 : 0;
    }
    EXPECT_GE(exact, trials / 2) << "of " << trials;
  }

  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrentInt8);
INSTANTIATE_TEST_SUITE_P(, RecurrentInt8, ::testing::ValuesIn(our_subjects()),
                         [](const auto& subject) {
                           std::string name = subject.param.implementation;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(RecurrentInt8, EqualsOracle) {
  compare({DType::kFloat32, 9, 7, 40, false, false}, 40, "cpu");
  compare({DType::kFloat32, 9, 7, 40, false, false}, 10, "test");
}

TEST_P(RecurrentInt8, EqualsOracleWithExtras) {
  compare({DType::kFloat32, 6, 7, 40, false, true}, 30, "cpu");
}

// Rows of their own for each thread, and several chunks of steps; or few rows of many units.
TEST_P(RecurrentInt8, EqualsOracleAtOtherShapes) {
  compare({DType::kFloat32, 6, 90, 35, false, false}, 4, "cpu");
  compare({DType::kFloat32, 4, 5, 230, false, false}, 6, "cpu");
}

TEST_P(RecurrentInt8, HasTheSameBitsForAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (int trial = 0; trial < 6; ++trial) {
    const StackCase stack = draw(trial % 2 == 0 ? CaseLimits{DType::kFloat32, 6, 40, 80}
                                                : CaseLimits{DType::kFloat32, 4, 5, 230});
    SCOPED_TRACE(describe(stack));
    omp_set_num_threads(1);
    const Tensors one = run(stack, options());
    for (const int count : {2, 3}) {
      omp_set_num_threads(count);
      EXPECT_EQ(run(stack, options()), one) << count;
    }
    omp_set_num_threads(threads);
  }
}

TEST_P(RecurrentInt8, GivesARowTheSameBitsInAnyBatch) {
  for (int trial = 0; trial < 10; ++trial) {
    StackCase stack = draw({DType::kFloat32, 9, 20, 40});
    stack.want_states = true;
    SCOPED_TRACE(describe(stack));
    const Tensors batch = run(stack, options());
    const auto row = static_cast<std::int64_t>(random_() % stack.rows);
    const Tensors single = run(single_row(stack, row), options());
    EXPECT_EQ(single.at("hn"), state_of_row(stack.descriptor, batch.at("hn"), stack.rows, row));
  }
}

TEST(RecurrentInt8Choice, TakesEightBitsOnlyWhereTheyAreAllowed) {
  const auto device = runtime::open_device("cpu");
  runtime::Context context(*device);
  Descriptor d;
  d.input = d.hidden = 20;
  d.time = d.rows = 3;
  const auto chosen = [&] { return std::string(make_plan(context, d).plan->implementation()); };
  EXPECT_FALSE(chosen().starts_with("int8-")) << chosen();
  context.set_precision(runtime::Precision::parse("int8"));
  EXPECT_TRUE(chosen().starts_with("int8-")) << chosen();
  // By name what is more exact may run.
  EXPECT_EQ(make_plan(context, d, "portable").plan->implementation(), "portable");
  // Deeper than its sums go.
  d.input = 40000;
  EXPECT_FALSE(chosen().starts_with("int8-")) << chosen();
  d.input = 20;
  // Inference alone.
  d.training = true;
  EXPECT_FALSE(chosen().starts_with("int8-")) << chosen();
  d.int8 = true;
  EXPECT_THROW(make_plan(context, d), Error);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
