#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "unit/kernels_recurrent/on_scaled_products.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Layers in TF32 so wide that the steps of both passes, or of backward alone, are products of
/// scaled float16.
class RecurrentScaledSteps : public OnScaledProducts {
 protected:
  /// Of 2^23 recurrent weights or a few more, yet to be filled. Unless inputs are `aligned`,
  /// training scales nothing.
  StackCase case_of(CellType cell, bool aligned) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.input = aligned ? 8 * draw(1, 3) : 8 * draw(1, 3) + 1;
    d.hidden = 8 * (cell == CellType::kLstm ? draw(182, 190) : draw(210, 220));
    d.tf32 = d.training = true;
    d.rows = draw(1, 12);
    d.time = draw(2, 3);
    stack.time = d.time;
    stack.rows = draw((d.rows + 1) / 2, d.rows);
    return stack;
  }

  /// Both passes, or forward alone, against the oracle; captured, too.
  void compare_with_oracle(StackCase stack) {
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    const Tensors mine = got(stack);
    expect_accurate(mine, stack, {.tf32 = true});
    EXPECT_EQ(got(stack, 3), mine);
  }

  /// Each row of the states by itself, relative to its own size.
  void expect_rows_close(const StackCase& stack, const std::string& name, const Tensors& got,
                         const Tensors& want) {
    ASSERT_TRUE(got.contains(name)) << name;
    for (std::int64_t row = 0; row < stack.rows; ++row) {
      auto mine = state_of_row(stack.descriptor, got.at(name), stack.rows, row);
      auto theirs = state_of_row(stack.descriptor, want.at(name), stack.rows, row);
      double largest = 0;
      for (const double number : theirs) largest = std::max(largest, std::abs(number));
      ASSERT_GT(largest, 0) << name << " of row " << row;
      for (double& number : mine) number /= largest;
      for (double& number : theirs) number /= largest;
      EXPECT_LE(relative_error(mine, theirs), tolerance()) << name << " of row " << row;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentScaledSteps,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("graph", "persistent-forward")),
                         scaled_parameter_name);

TEST_P(RecurrentScaledSteps, EqualOracle) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const bool aligned : {false, true}) compare_with_oracle(case_of(cell, aligned));
  }
}

TEST_P(RecurrentScaledSteps, EqualOracleInInference) {
  if (!is("graph")) GTEST_SKIP() << "persistent-forward has no inference";
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack = case_of(cell, true);
    stack.descriptor.training = false;
    compare_with_oracle(stack);
  }
}

// What is packed tells which products the steps are: scaled weights take two bytes each and have no
// other form, those of TF32 take four, and their transpose in training as many again.
TEST_P(RecurrentScaledSteps, HaveTwoBytesARecurrentWeight) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const bool training : {false, true}) {
      if (!training && !is("graph")) continue;
      Descriptor d = case_of(cell, true).descriptor;
      d.training = training;
      if (gpu_lacks(d)) return;
      const auto packed = [&](std::int64_t input, std::int64_t hidden) {
        d.input = input;
        d.hidden = hidden;
        return static_cast<std::int64_t>(candidate_->create(d, *device_)->packed_bytes());
      };
      const std::int64_t input = d.input, hidden = d.hidden;
      const std::int64_t weights = d.gates() * hidden * hidden;
      const std::int64_t scaled = packed(input, hidden);
      EXPECT_GT(scaled, 2 * weights);
      const std::int64_t narrow = 8 * (cell == CellType::kLstm ? 181 : 209);  // one octet too few
      EXPECT_GT(packed(input, narrow), scaled + weights) << "hidden=" << hidden;
      if (training) {
        EXPECT_GT(packed(input + 1, hidden), scaled + weights) << "input=" << input;
      }
    }
  }
}

// With products of inputs and of weight gradients that are so large that they are scaled, too.
TEST_P(RecurrentScaledSteps, EqualThoseOfTf32) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack = case_of(cell, true);
    Descriptor& d = stack.descriptor;
    d.input = d.hidden;
    d.rows = stack.rows = draw(30, 60);
    constexpr std::int64_t kFewest = std::int64_t{1} << 32;
    d.time = stack.time = kFewest / (d.rows * d.gates() * d.hidden * d.input) + 1;
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (!gpu_lacks(d)) compare(stack);
  }
}

// float16 couldn't hold them, nor could one scale for all rows.
TEST_P(RecurrentScaledSteps, EqualOracleWithStatesAndGradientsOfAnySize) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    const StackCase unfilled = case_of(cell, true);
    StackCase stack;
    do {
      stack = unfilled;
      fill_case(random_, stack);
      stack.input.lengths.clear();
    } while (!stack.want_states || stack.input.h0.empty() || stack.flow.dhn.empty());
    const auto width = static_cast<std::size_t>(stack.descriptor.hidden);
    const auto rows = static_cast<std::size_t>(stack.rows);
    const auto scale = [&](std::vector<double>& values, std::size_t row, int exponent) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i / width % rows == row) values[i] = std::ldexp(values[i], exponent);
      }
    };
    for (std::size_t row = 0; row < rows; ++row) {
      const auto exponent = static_cast<int>(draw(-40, 40));
      scale(stack.flow.dy, row, exponent);
      scale(stack.flow.dhn, row, exponent);
      scale(stack.flow.dcn, row, exponent);
      // Larger states would shut or open gates by sums whose sign is chance.
      scale(stack.input.h0, row, static_cast<int>(draw(-20, 3)));
    }
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    const Tensors mine = got(stack), theirs = expected(stack);
    for (const char* name : {"hn", "dh0"}) expect_rows_close(stack, name, mine, theirs);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
