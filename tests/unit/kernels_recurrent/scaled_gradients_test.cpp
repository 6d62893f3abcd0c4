#include <gtest/gtest.h>

#include <cmath>

#include "unit/kernels_recurrent/on_scaled_products.h"

namespace sluice::kernels::recurrent::testing {
namespace {

class RecurrentScaledGradients : public OnScaledProducts {
 protected:
  /// Of 2^32 multiplications or a few more.
  StackCase case_of(CellType cell, std::int64_t directions) {
    const bool narrow = is("persistent-cluster");
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.directions = directions;
    d.input = d.hidden = narrow ? 512 / directions : 1024 / directions;
    if (narrow) d.layers = 2;
    d.tf32 = d.training = true;
    d.rows = stack.rows = narrow ? 60 : 128;
    constexpr std::int64_t kFewest = std::int64_t{1} << 32;
    const std::int64_t step = stack.rows * directions * d.gates() * d.hidden * (d.input + d.hidden);
    d.time = stack.time = kFewest / step + 1;
    fill_case(random_, stack);
    return stack;
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentScaledGradients, scaled_parameters(), scaled_parameter_name);

TEST_P(RecurrentScaledGradients, EqualThoseOfTf32) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t directions : {1, 2}) {
      const StackCase stack = case_of(cell, directions);
      SCOPED_TRACE(describe(stack));
      if (gpu_lacks(stack.descriptor)) continue;
      compare(stack);
    }
  }
}

// Of several layers the products of one overlap with launches of the next; of so many rows a layer
// takes several launches, the last one for fewer rows, overlapped with which inputs' gradients are
// multiplied.
TEST_P(RecurrentScaledGradients, EqualThoseOfTf32BesideLaunches) {
  if (!is("persistent-wide")) GTEST_SKIP() << "this is a test of persistent-wide";
  for (const std::int64_t rows : {draw(100, 128), draw(260, 350)}) {
    for (const bool ends : {false, true}) {
      StackCase stack;
      Descriptor& d = stack.descriptor;
      d.input = d.hidden = 1024;
      d.layers = draw(2, 3);
      d.dropout = draw(0, 1) * 0.3;
      d.tf32 = d.training = true;
      d.rows = stack.rows = rows;
      d.time = stack.time = draw(9, 11);
      fill_case(random_, stack);
      stack.input.lengths.clear();
      for (std::int64_t i = 0; ends && i < rows; ++i) {
        stack.input.lengths.push_back(static_cast<int>(draw(1, stack.time)));
      }
      SCOPED_TRACE(describe(stack));
      if (gpu_lacks(stack.descriptor)) return;
      compare(stack);
      EXPECT_EQ(got(stack, 3), got(stack)) << "captured";
    }
  }
}

// float16 couldn't hold them; and what lies past a row's end, which may be larger than all that
// counts, mustn't scale it.
TEST_P(RecurrentScaledGradients, EqualThoseOfTf32WithFactorsOfAnySize) {
  StackCase stack = case_of(CellType::kLstm, 1);
  if (gpu_lacks(stack.descriptor)) GTEST_SKIP() << "this GPU cannot run the implementation";
  const double large = std::ldexp(1.0, static_cast<int>(draw(20, 30)));
  for (double& x : stack.input.x) x /= large;
  for (double& d : stack.flow.dy) d *= large;
  stack.input.lengths.assign(static_cast<std::size_t>(stack.rows), 1);
  for (auto& length : stack.input.lengths) length = static_cast<int>(draw(1, stack.time));
  SCOPED_TRACE(describe(stack));
  compare(stack);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
