#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "unit/kernels_recurrent/leaf_case.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
class LeafStep : public LeafTest<T> {};
TYPED_TEST_SUITE(LeafStep, LeafTypes);

/// Everything a step takes and gives.
template <typename T>
struct Step {
  std::int64_t rows, units, gates, panels, h_stride;
  bool projected;
  Matrix<T> weights;
  GuardedBuffer<T> h_prev, h_next, y;
  GuardedBuffer<float> pre, bias_hn, c_prev, c_next, saved;
  GuardedBuffer<std::int32_t> lengths;
  StepArgs<T> args{};

  Step(const Leaf<T>& leaf, std::int64_t rows_, std::int64_t units_, std::int64_t gates_,
       std::int64_t depth, bool projected_, std::mt19937& generator)
      : rows(rows_),
        units(units_),
        gates(gates_),
        panels(panels_of(units)),
        h_stride(units + 5),
        projected(projected_),
        weights(leaf, units, depth, gates, false, generator),
        h_prev((rows - 1) * (depth + 3) + depth),
        h_next((rows - 1) * h_stride + units),
        y((rows - 1) * (units + 2) + units),
        pre(rows * panels * gates * kPanel),
        bias_hn(panels * kPanel),
        c_prev(rows * panels * kPanel),
        c_next(c_prev.size()),
        saved(rows * panels * 4 * kPanel),
        lengths(rows) {
    args.row_end = rows;
    args.panel_end = panels;
    args.units = units;
    args.depth = depth;
    args.h_prev = h_prev.data();
    args.h_prev_stride = depth + 3;
    args.packed = weights.packed.data();
    args.pre = pre.data();
    args.bias_hn = gates == 3 ? bias_hn.data() : nullptr;
    args.lengths = lengths.data();
    args.t = 5;
    args.c_prev = gates == 4 ? c_prev.data() : nullptr;
    args.c_next = gates == 4 ? c_next.data() : nullptr;
    args.h_next = h_next.data();
    args.h_next_stride = h_stride;
    args.y = projected ? nullptr : y.data();
    args.y_stride = units + 2;
    args.saved = saved.data();
  }

  void run(const Leaf<T>& leaf, const StepArgs<T>& step) const {
    gates == 4 ? leaf.lstm.forward(step) : leaf.gru.forward(step);
  }
  const T* h_row(std::int64_t row) const { return h_prev.data() + row * args.h_prev_stride; }
  std::int64_t at(std::int64_t row, std::int64_t unit, std::int64_t count, std::int64_t i) const {
    return ((row * panels + unit / kPanel) * count + i) * kPanel + unit % kPanel;
  }
};

/// What a step must give for one row and unit, and how far off each may be.
struct Expected {
  double saved[4], c, h;
  double error;  ///< of the gates and of c
};

template <typename T>
Expected expected_step(const Step<T>& step, std::int64_t row, std::int64_t unit) {
  const bool lstm = step.gates == 4;
  double sums[4] = {}, error = 0;
  for (std::int64_t gate = 0; gate < step.gates; ++gate) {
    const bool apart = !lstm && gate == 2;
    const double start =
        apart ? step.bias_hn[unit] : step.pre[step.at(row, unit, step.gates, gate)];
    const Bounded sum = row_times(step.h_row(row), step.weights, gate, unit, start);
    sums[gate] = sum.value;
    error += sum.error();
  }
  // The cells' derivatives by any sum are at most 1 + |c_prev| or 1 + |n_hidden|, and a dozen
  // roundings follow, each of values no larger than that, and the errors of fast activations.
  Expected out{};
  if (lstm) {
    const double c_prev = step.c_prev[step.at(row, unit, 1, 0)];
    const double i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = std::tanh(sums[2]);
    const double o = sigmoid(sums[3]), c = f * c_prev + i * g;
    out = {{i, f, g, o}, c, o * std::tanh(c), 0};
    out.error = (1 + std::abs(c_prev)) * (error + 16 * kUnit + kActivation<T>);
  } else {
    const double r = sigmoid(sums[0]), z = sigmoid(sums[1]);
    const double n = std::tanh(step.pre[step.at(row, unit, 3, 2)] + r * sums[2]);
    const double h_prev = value_of(step.h_row(row)[unit]);
    out = {{r, z, n, sums[2]}, 0, (1 - z) * n + z * h_prev, 0};
    out.error = (2 + std::abs(sums[2]) + std::abs(h_prev)) * (error + 16 * kUnit + kActivation<T>);
  }
  return out;
}

template <typename T>
void expect_step(const Step<T>& step, std::int64_t row, std::int64_t unit) {
  const Expected want = expected_step(step, row, unit);
  const double h_error = want.error + kStored<T> * std::abs(want.h);
  const double h = value_of(step.h_next[row * step.h_stride + unit]);
  ASSERT_NEAR(h, want.h, h_error) << row << ' ' << unit;
  if (!step.projected) {
    ASSERT_EQ(value_of(step.y[row * step.args.y_stride + unit]), h);
  }
  if (step.gates == 4) {
    ASSERT_NEAR(step.c_next[step.at(row, unit, 1, 0)], want.c, want.error) << row << ' ' << unit;
  }
  for (int i = 0; i < 4; ++i) {
    ASSERT_NEAR(step.saved[step.at(row, unit, 4, i)], want.saved[i], want.error)
        << row << ' ' << unit << " saved " << i;
  }
}

template <typename T>
void expect_kept(const Step<T>& step, std::int64_t row, std::int64_t unit) {
  const double h = value_of(step.h_next[row * step.h_stride + unit]);
  ASSERT_EQ(h, step.projected ? 0 : value_of(step.h_row(row)[unit])) << row << ' ' << unit;
  if (!step.projected) {
    ASSERT_EQ(value_of(step.y[row * step.args.y_stride + unit]), 0);
  }
  if (step.gates == 4) {
    ASSERT_EQ(step.c_next[step.at(row, unit, 1, 0)], step.c_prev[step.at(row, unit, 1, 0)]);
  }
}

TYPED_TEST(LeafStep, StepsAreTheNaiveOnes) {
  using T = TypeParam;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    for (int i = 0; i < 60; ++i) {
      const std::int64_t gates = i % 2 == 0 ? 4 : 3, rows = this->pick(1, i < 45 ? 24 : 110);
      const std::int64_t units = this->pick(1, 75);
      const bool projected = gates == 4 && i % 3 == 0;
      const std::int64_t depth = projected ? this->pick(1, 60) : units;
      Step<T> step(*leaf, rows, units, gates, depth, projected, this->generator_);
      auto& args = step.args;
      args.row_begin = this->pick(0, rows - 1);
      args.row_end = this->pick(args.row_begin + 1, rows);
      args.panel_begin = this->pick(0, step.panels - 1);
      args.panel_end = this->pick(args.panel_begin + 1, step.panels);
      SCOPED_TRACE(name + " gates " + std::to_string(gates) + " rows " +
                   std::to_string(args.row_begin) + "-" + std::to_string(args.row_end) + " units " +
                   std::to_string(units) + " depth " + std::to_string(depth));
      this->fill_rows(step.h_prev, depth, args.h_prev_stride);
      this->fill(step.pre, 3);
      this->fill(step.bias_hn, 1);
      this->fill(step.c_prev, 2);
      for (std::int32_t& length : step.lengths)
        length = static_cast<std::int32_t>(this->pick(4, 9));
      if (i % 7 == 0) args.lengths = nullptr;
      if (i % 11 == 0) std::fill(step.lengths.begin(), step.lengths.end(), 0);
      this->poison(step.h_next);
      this->poison(step.y);
      this->poison(step.c_next);
      this->poison(step.saved);
      step.run(*leaf, args);
      for (std::int64_t row = 0; row < rows; ++row) {
        const bool in_rows = row >= args.row_begin && row < args.row_end;
        for (std::int64_t unit = 0; unit < units; ++unit) {
          const std::int64_t panel = unit / kPanel;
          if (!in_rows || panel < args.panel_begin || panel >= args.panel_end) {
            ASSERT_TRUE(std::isnan(value_of(step.h_next[row * step.h_stride + unit])));
            ASSERT_TRUE(std::isnan(step.saved[step.at(row, unit, 4, 0)]));
          } else if (args.lengths != nullptr && step.lengths[row] <= args.t) {
            ASSERT_NO_FATAL_FAILURE(expect_kept(step, row, unit));
          } else {
            ASSERT_NO_FATAL_FAILURE(expect_step(step, row, unit));
          }
        }
        for (std::int64_t gap = units; row + 1 < rows && gap < step.h_stride; ++gap) {
          ASSERT_TRUE(std::isnan(value_of(step.h_next[row * step.h_stride + gap])));
        }
      }
    }
  }
}

// c may be updated in place.
TYPED_TEST(LeafStep, CellStateInPlace) {
  using T = TypeParam;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    SCOPED_TRACE(name);
    Step<T> step(*leaf, 9, 37, 4, 37, false, this->generator_);
    this->fill_rows(step.h_prev, 37, step.args.h_prev_stride);
    this->fill(step.pre, 2);
    this->fill(step.c_prev, 1);
    step.args.lengths = nullptr;
    step.run(*leaf, step.args);
    step.args.c_next = step.c_prev.data();
    step.run(*leaf, step.args);
    ASSERT_EQ(std::memcmp(step.c_prev.data(), step.c_next.data(),
                          static_cast<std::size_t>(step.c_next.size()) * sizeof(float)),
              0);
  }
}

TYPED_TEST(LeafStep, RowAloneHasTheBitsOfTheBatch) {
  using T = TypeParam;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    if (!same_bits) continue;
    for (const std::int64_t gates : {4, 3}) {
      SCOPED_TRACE(name + " gates " + std::to_string(gates));
      const std::int64_t rows = 23, units = 70;
      Step<T> step(*leaf, rows, units, gates, units, false, this->generator_);
      this->fill_rows(step.h_prev, units, step.args.h_prev_stride);
      this->fill(step.pre, 2);
      this->fill(step.bias_hn, 1);
      this->fill(step.c_prev, 1);
      step.args.lengths = nullptr;
      this->poison(step.y);
      step.run(*leaf, step.args);
      GuardedBuffer<T> y(step.y.size());
      this->poison(y);
      for (std::int64_t row = 0; row < rows; ++row) {
        StepArgs<T> alone = step.args;
        alone.row_begin = row;
        alone.row_end = row + 1;
        alone.y = y.data();
        step.run(*leaf, alone);
      }
      ASSERT_EQ(
          std::memcmp(y.data(), step.y.data(), static_cast<std::size_t>(y.size()) * sizeof(T)), 0);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
