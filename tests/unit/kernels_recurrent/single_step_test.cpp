#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"
#include "unit/support/declined_cases.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Stacks of a single step, by every implementation: steps that read states where the caller has
/// them, and on a GPU multiply their input too and run what is left of backward side by side.
class SingleStep : public ::testing::TestWithParam<SubjectAndPrecision> {
 protected:
  const Subject& subject() const { return std::get<0>(GetParam()); }
  const std::string& precision() const { return std::get<1>(GetParam()); }
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  /// Half of the cases have widths that TMA can read.
  StackCase draw_stack(std::int64_t most_rows, std::int64_t most_units) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    const std::int64_t unit = draw(0, 1) == 0 ? 8 : 1;
    d.cell = draw(0, 1) == 0 ? CellType::kLstm : CellType::kGru;
    d.layers = draw(1, 3);
    d.directions = draw(0, 3) == 0 ? 2 : 1;
    d.input = unit * draw(1, 100 / unit);
    d.hidden = unit * draw(1, most_units / unit);
    d.dtype = precision() == "tf32" ? DType::kFloat32 : base::parse_dtype(precision());
    d.tf32 = precision() == "tf32";
    d.training = draw(0, 2) > 0;
    if (draw(0, 2) == 0) d.dropout = 0.3;
    stack.rows = draw(1, most_rows);
    d.rows = stack.rows + draw(0, 3);
    // Often of a plan for more steps.
    d.time = draw(0, 1) == 0 ? 3 : 1;
    fill_case(random_, stack);
    return stack;
  }

  RunOptions options() const {
    RunOptions options{subject().device, subject().implementation};
    options.tf32 = precision() == "tf32";
    return options;
  }

  void compare(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    RunOptions captured = options();
    captured.rounds = 3;
    const Tensors got = run(stack, captured);
    expect_accurate(got, stack);
    EXPECT_EQ(run(stack, captured), got);
  }

  void SetUp() override {
    if (subject().candidate().peer) GTEST_SKIP() << "peers are not tested here";
    if (precision() == "tf32" && subject().device == "cpu")
      GTEST_SKIP() << "this device has no TF32";
  }
  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }
  bool can_run(const Descriptor& descriptor) {
    return cases_.take(subject().implementation, subject().refusal(descriptor));
  }

  sluice::testing::DeclinedCases cases_;

  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, SingleStep,
                         ::testing::Combine(::testing::ValuesIn(subjects()),
                                            ::testing::Values("float32", "tf32", "bfloat16",
                                                              "float16")),
                         parameter_name);

TEST_P(SingleStep, EqualsOracleAndRepeatsToTheBit) {
  for (int trial = 0; trial < 8; ++trial) {
    const StackCase stack = draw_stack(40, 200);
    if (can_run(stack.descriptor)) compare(stack);
  }
}

TEST_P(SingleStep, EqualsOracleWithManyRows) {
  for (int trial = 0; trial < 3; ++trial) {
    const StackCase stack = draw_stack(150, 320);
    if (can_run(stack.descriptor)) compare(stack);
  }
}

// A step must not read what another block of it has overwritten, nor backward what forward has.
TEST_P(SingleStep, ServesStatesThatAreAbsent) {
  for (int trial = 0; trial < 6; ++trial) {
    StackCase stack = draw_stack(40, 200);
    if (!can_run(stack.descriptor)) continue;
    if (trial % 2 == 0) stack.input.h0.clear();
    if (trial % 3 == 0) stack.input.c0.clear();
    if (trial > 2) stack.flow.dhn.clear();
    stack.want_states = trial % 2 == 1;
    compare(stack);
  }
}

/// Of few rows in float32, which a GPU runs as one kernel a layer and direction: lines that are
/// longer than a warp reads at a time, and rows in several eights. Inputs of the second layer too
/// are as wide as the kernel takes with any rows.
class FewRows : public SingleStep {
 protected:
  StackCase draw_few_rows(CellType cell) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.layers = draw(1, 2);
    d.directions = draw(1, 2);
    d.time = 1;
    d.rows = stack.rows = draw(0, 1) == 1 ? draw(1, 8) : draw(9, 32);
    d.input = 4 * draw(1, 80);
    d.hidden = 4 * draw(30, d.rows <= 8 ? 128 : 64);
    d.training = draw(0, 1) == 1;
    return stack;
  }

  void SetUp() override {
    if (subject().device == "cpu" || subject().implementation != "graph") {
      GTEST_SKIP() << "this is a test of the variant `graph`";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, FewRows,
                         ::testing::Combine(::testing::ValuesIn(subjects()),
                                            ::testing::Values("float32")),
                         parameter_name);

TEST_P(FewRows, EqualsOracle) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (int trial = 0; trial < 2; ++trial) {
      StackCase stack = draw_few_rows(cell);
      fill_case(random_, stack);
      compare(stack);
    }
    // Last states take the first ones' place, which no block may overwrite while others read.
    StackCase in_place = draw_few_rows(cell);
    fill_case_in_place(random_, in_place);
    SCOPED_TRACE(describe(in_place));
    expect_accurate(run(in_place, options()), in_place);
  }
}

TEST_P(FewRows, AreOneKernel) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack = draw_few_rows(cell);
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    std::vector<std::string> kernels;
    RunOptions recorded = options();
    recorded.kernels = &kernels;
    run(stack, recorded);
    EXPECT_EQ(
        std::ranges::count_if(
            kernels, [](const std::string& name) { return name.starts_with("joined_few_rows"); }),
        stack.descriptor.layers * stack.descriptor.directions);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
