#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using Parameter = std::tuple<const char*, const char*>;

/// Stacks of a single step of so many rows that each layer's is one kernel, on GPUs that have it.
class JoinedStep : public OnCandidate<Parameter> {
 protected:
  JoinedStep() : OnCandidate("persistent-cluster") {}

  void SetUp() override {
    if (!candidate_) GTEST_SKIP() << "this device lacks the implementation";
    Descriptor layer;
    layer.input = layer.hidden = 64;
    layer.time = 2;
    layer.rows = 1;
    layer.dtype = DType::kBFloat16;
    if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
    take("graph");
  }

  /// Units and inputs of which rows begin at 16 bytes.
  StackCase steps_of(CellType cell, std::int64_t layers, std::int64_t input, std::int64_t hidden,
                     std::int64_t rows) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.layers = layers;
    d.input = input;
    d.hidden = hidden;
    d.time = 1;
    d.rows = rows + draw(0, 3);
    d.dtype = precision_.storage;
    d.tf32 = precision_.tf32;
    stack.rows = rows;
    fill_case_in_place(random_, stack);
    stack.in_place = false;
    stack.want_states = draw(0, 1) == 1;
    stack.want_c_sequence = false;
    return stack;
  }
  StackCase draw_steps() {
    return steps_of(draw(0, 1) == 0 ? CellType::kLstm : CellType::kGru, draw(1, 2), 8 * draw(1, 8),
                    8 * draw(20, 26), draw(865, 960));
  }

  RunOptions options() const {
    RunOptions options = OnCandidate::options();
    options.tf32 = precision_.tf32;
    return options;
  }
  void compare(const StackCase& stack, const Tensors& got) const {
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
  }
  /// Runs it, and says how many kernels of joined steps there were.
  std::int64_t joined_steps(const StackCase& stack, Tensors& got) const {
    std::vector<std::string> kernels;
    RunOptions recorded = options();
    recorded.kernels = &kernels;
    got = run(stack, recorded);
    return std::ranges::count_if(
        kernels, [](const std::string& name) { return name.starts_with("step_kernel<"); });
  }

  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

std::string name_of_parameter(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

INSTANTIATE_TEST_SUITE_P(, JoinedStep,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("tf32", "bfloat16", "float16")),
                         name_of_parameter);

// Tiles that rows and units don't fill, states that are absent, and captured steps.
TEST_P(JoinedStep, EqualsOracleWithTilesOfRows) {
  for (int trial = 0; trial < 4; ++trial) {
    StackCase stack = draw_steps();
    if (trial == 0) stack.input.h0.clear();
    if (trial == 1) stack.input.c0.clear();
    SCOPED_TRACE(describe(stack));
    RunOptions captured = options();
    captured.rounds = 3;
    const Tensors got = run(stack, captured);
    compare(stack, got);
    EXPECT_EQ(run(stack, captured), got);
  }
}

// Two layers of the fewest tiles, whose depth takes more stages than the ring has: small enough for
// compute-sanitizer.
TEST_P(JoinedStep, EqualsOracleInTheSmallestLayers) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    const StackCase stack = steps_of(cell, 2, 136, 128, 1088);
    SCOPED_TRACE(describe(stack));
    compare(stack, run(stack, options()));
  }
}

// Each layer's kernel but the first may begin before the one ahead has ended.
TEST_P(JoinedStep, RunsLayersBehindEachOther) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    const StackCase stack = steps_of(cell, 3, 40, 384, 900);
    SCOPED_TRACE(describe(stack));
    Tensors got;
    EXPECT_EQ(joined_steps(stack, got), 3);
    compare(stack, got);
    RunOptions captured = options();
    captured.rounds = 10;
    EXPECT_EQ(run(stack, captured), got);
  }
}

// None hangs, and none leaves anything behind that the next would take for its own. Of each plan's
// runs the last is compared.
TEST_P(JoinedStep, SurvivesASoakOfTenThousandRuns) {
  constexpr int kPlans = 10;
  RunOptions many = options();
  many.rounds = 1'000;
  for (int plan = 0; plan < kPlans; ++plan) {
    const StackCase stack = draw_steps();
    SCOPED_TRACE(describe(stack));
    Tensors first;
    ASSERT_EQ(joined_steps(stack, first), stack.descriptor.layers);
    const Tensors last = run(stack, many);
    EXPECT_EQ(last, first);
    compare(stack, last);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
