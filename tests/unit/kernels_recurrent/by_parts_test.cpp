#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Layers of float32 that are so large that a GPU multiplies them by parts of bfloat16, steps and
/// gradients too, where it can, and stacks whose layers step together there: small random cases
/// never are. On devices with a ladder.
class RecurrentByParts : public OnCandidate<std::tuple<const char*>> {
 protected:
  RecurrentByParts() : OnCandidate("graph") {}

  void compare(CellType cell, std::int64_t units, std::int64_t rows) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.input = d.hidden = units;
    d.time = stack.time = 2;
    d.rows = stack.rows = rows;
    d.training = true;
    compare(stack);
  }

  void compare(StackCase& stack) {
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    const Tensors got = run(stack, options());
    expect_accurate(got, stack);
    EXPECT_EQ(run(stack, options()), got);
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentByParts, ::testing::Combine(sluice::testing::devices()),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param));
                         });

TEST_P(RecurrentByParts, LstmEqualsOracle) { compare(CellType::kLstm, 384, draw(500, 512)); }
TEST_P(RecurrentByParts, GruEqualsOracle) { compare(CellType::kGru, 512, draw(350, 380)); }

/// Stacks whose layers step together: more steps are ready at a time than a kernel takes; whole
/// tiles of rows and a partial one.
StackCase stack_of(std::int64_t hidden, std::int64_t rows, std::int64_t time) {
  StackCase stack;
  Descriptor& d = stack.descriptor;
  d.cell = CellType::kLstm;
  d.layers = 4;
  d.input = 24;
  d.hidden = hidden;
  d.time = stack.time = time;
  d.rows = stack.rows = rows;
  return stack;
}

TEST_P(RecurrentByParts, StacksEqualOracle) {
  for (const bool training : {true, false}) {
    const std::int64_t hidden = training ? 384 : 64 * draw(4, 6);
    StackCase stack = stack_of(hidden, draw(257, 270), draw(4, 5));
    stack.descriptor.input = draw(20, 50);
    stack.descriptor.training = training;
    if (training) stack.descriptor.dropout = 0.3;
    compare(stack);
  }
}

// In place, of a plan for more steps and rows.
TEST_P(RecurrentByParts, StacksEqualOracleInALargerPlan) {
  StackCase stack = stack_of(384, 260, 3);
  stack.descriptor.time = 5;
  stack.descriptor.rows = 300;
  fill_case_in_place(random_, stack);
  SCOPED_TRACE(describe(stack));
  expect_accurate(run(stack, options()), stack);
}

// A plan for a stack's steps may run a single one, which has none to overlap with, and few rows, of
// which tiles would be nearly empty.
TEST_P(RecurrentByParts, SingleStepsOfStacksEqualOracle) {
  for (const std::int64_t rows : {3, 260}) {
    StackCase stack = stack_of(384, rows, 1);
    stack.descriptor.time = 4;
    stack.descriptor.rows = 260;
    compare(stack);
  }
}

// A kernel has steps of several layers.
TEST_P(RecurrentByParts, LayersOfStacksStepTogether) {
  if (std::get<0>(GetParam()) != std::string_view("cuda")) GTEST_SKIP() << "this is a test of GPUs";
  StackCase stack = stack_of(384, 270, 6);
  fill_case(random_, stack);
  std::vector<std::string> kernels;
  RunOptions recorded = options();
  recorded.kernels = &kernels;
  run(stack, recorded);
  const auto steps = std::ranges::count_if(
      kernels, [](const std::string& name) { return name.starts_with("stack_step_kernel"); });
  EXPECT_GE(steps, 6);
  EXPECT_LE(steps, 4 * 6);  // a kernel a layer and step at most
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
