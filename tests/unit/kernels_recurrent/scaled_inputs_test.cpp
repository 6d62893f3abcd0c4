#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "unit/kernels_recurrent/on_scaled_products.h"

namespace sluice::kernels::recurrent::testing {
namespace {

class RecurrentScaledInputs : public OnScaledProducts {
 protected:
  /// Multiplications of a layer's inputs from which on it scales them.
  static constexpr std::int64_t kFewest = std::int64_t{1} << 32;

  /// Of so many or a few more.
  StackCase case_of(CellType cell, std::int64_t directions, bool training) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.directions = directions;
    d.input = 2048;
    d.hidden = 8 * (is("persistent-wide") ? draw(50, 128) / directions : draw(16, 32));
    d.tf32 = true;
    d.training = training;
    d.rows = stack.rows = draw(90, 110);
    const std::int64_t step = stack.rows * directions * d.gates() * d.hidden * d.input;
    d.time = stack.time = kFewest / step + 1;
    fill_case(random_, stack);
    stack.input.lengths.clear();
    return stack;
  }
  /// The numbers that a row of the batch reads at a time.
  double* row(StackCase& stack, std::int64_t time, std::int64_t row) const {
    return stack.input.x.data() + (time * stack.rows + row) * stack.descriptor.input;
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentScaledInputs, scaled_parameters(), scaled_parameter_name);

TEST_P(RecurrentScaledInputs, EqualThoseOfTf32) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t directions : {1, 2}) {
      const StackCase stack = case_of(cell, directions, draw(0, 1) == 1);
      SCOPED_TRACE(describe(stack));
      if (gpu_lacks(stack.descriptor)) continue;
      compare(stack);
    }
  }
}

// Layers overlapped with each other have scaled inputs of their own, in one direction; of fewer
// rows than planned all lie closer.
TEST_P(RecurrentScaledInputs, EqualThoseOfTf32InSeveralLayersWithFewerRowsThanPlanned) {
  for (const std::int64_t directions : {1, 2}) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.layers = 2;
    d.directions = directions;
    d.hidden = is("persistent-wide") ? 1024 / directions : 256;
    d.input = directions * d.hidden;
    d.rows = draw(90, 110);
    d.time = kFewest / (d.rows * directions * d.gates() * d.hidden * d.input) + 1;
    d.tf32 = d.training = true;
    stack.time = d.time - draw(0, 1);
    stack.rows = d.rows - draw(1, 60);
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (!gpu_lacks(d)) compare(stack);
  }
}

// float16 couldn't hold them as they are, nor with one scale for all of them.
TEST_P(RecurrentScaledInputs, EqualThoseOfTf32WithRowsOfAnySize) {
  StackCase stack = case_of(CellType::kLstm, 1, true);
  if (gpu_lacks(stack.descriptor)) GTEST_SKIP() << "this GPU cannot run the implementation";
  for (std::int64_t t = 0; t < stack.time; ++t) {
    for (std::int64_t i = 0; i < stack.rows; ++i) {
      const int exponent = i % 3 == 0 ? 0 : static_cast<int>(draw(-40, 40));
      double* const x = row(stack, t, i);
      for (std::int64_t k = 0; k < stack.descriptor.input; ++k) x[k] = std::ldexp(x[k], exponent);
    }
  }
  SCOPED_TRACE(describe(stack));
  const Tensors mine = got(stack), theirs = wanted(stack);
  // Gradients of weights are as large as the largest inputs; what each row puts out isn't.
  expect_close({{"y", mine.at("y")}}, {{"y", theirs.at("y")}}, tolerance());
  EXPECT_EQ(got(stack), mine);
}

// What isn't a number in one row of the batch changes no other.
TEST_P(RecurrentScaledInputs, StayApartRowByRow) {
  StackCase stack = case_of(CellType::kLstm, 1, false);
  if (gpu_lacks(stack.descriptor)) GTEST_SKIP() << "this GPU cannot run the implementation";
  const Tensors before = got(stack);
  const std::int64_t bad = draw(0, stack.rows - 1);
  row(stack, 0, bad)[draw(0, stack.descriptor.input - 1)] =
      std::numeric_limits<double>::quiet_NaN();
  const Tensors after = got(stack);
  const auto& y = before.at("y");
  const auto& with = after.at("y");
  const std::int64_t width = static_cast<std::int64_t>(y.size()) / (stack.time * stack.rows);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool of_bad = static_cast<std::int64_t>(i) / width % stack.rows == bad;
    ASSERT_TRUE(of_bad ? std::isnan(with[i]) : with[i] == y[i])
        << "number " << i << " of row " << static_cast<std::int64_t>(i) / width % stack.rows;
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
