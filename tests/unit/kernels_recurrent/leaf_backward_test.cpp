#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "unit/kernels_recurrent/leaf_case.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
class LeafBackward : public LeafTest<T> {};
TYPED_TEST_SUITE(LeafBackward, LeafTypes);

/// Everything a backward step takes and gives.
template <typename T>
struct BackwardStep {
  std::int64_t rows, units, gates, panels;
  GuardedBuffer<float> saved, c_prev, c, dh, dc, dc_before, dh_direct;
  GuardedBuffer<T> h_prev, d_input, d_hidden;
  GuardedBuffer<std::int32_t> lengths;
  StepBackwardArgs<T> args{};

  BackwardStep(std::int64_t rows_, std::int64_t units_, std::int64_t gates_)
      : rows(rows_),
        units(units_),
        gates(gates_),
        panels(panels_of(units)),
        saved(rows * panels * 4 * kPanel),
        c_prev(rows * panels * kPanel),
        c(c_prev.size()),
        dh(c_prev.size()),
        dc(c_prev.size()),
        dc_before(c_prev.size()),
        dh_direct(c_prev.size()),
        h_prev((rows - 1) * (units + 3) + units),
        d_input(rows * panels * gates * kPanel),
        d_hidden(d_input.size()),
        lengths(rows) {
    const bool lstm = gates == 4;
    args.row_end = rows;
    args.panel_end = panels;
    args.units = units;
    args.lengths = lengths.data();
    args.t = 5;
    args.saved = saved.data();
    args.c_prev = lstm ? c_prev.data() : nullptr;
    args.c = lstm ? c.data() : nullptr;
    args.h_prev = lstm ? nullptr : h_prev.data();
    args.h_prev_stride = units + 3;
    args.dh = dh.data();
    args.dc = lstm ? dc.data() : nullptr;
    args.dh_direct = dh_direct.data();
    args.d_gates_input = d_input.data();
    args.d_gates_hidden = lstm ? nullptr : d_hidden.data();
  }
  std::int64_t at(std::int64_t row, std::int64_t unit, std::int64_t count, std::int64_t i) const {
    return ((row * panels + unit / kPanel) * count + i) * kPanel + unit % kPanel;
  }
};

template <typename T>
void expect_lstm_backward(const BackwardStep<T>& step, std::int64_t row, std::int64_t unit) {
  const std::int64_t at = step.at(row, unit, 1, 0);
  double s[4];
  for (int i = 0; i < 4; ++i) s[i] = step.saved[step.at(row, unit, 4, i)];
  const double tc = std::tanh(static_cast<double>(step.c[at])), dh = step.dh[at];
  const double dc = step.dc_before[at] + dh * s[3] * (1 - tc * tc);
  const double want[4] = {dc * s[2] * s[0] * (1 - s[0]), dc * step.c_prev[at] * s[1] * (1 - s[1]),
                          dc * s[0] * (1 - s[2] * s[2]), dh * tc * s[3] * (1 - s[3])};
  // At most a dozen roundings of products of the inputs, all at most 2 in magnitude.
  const double error = 16 * kUnit * 8;
  for (int i = 0; i < 4; ++i) {
    ASSERT_NEAR(value_of(step.d_input[step.at(row, unit, 4, i)]), want[i],
                error + kStored<T> * std::abs(want[i]))
        << row << ' ' << unit << " gate " << i;
  }
  ASSERT_NEAR(step.dc[at], dc * s[1], error);
  ASSERT_EQ(step.dh_direct[at], 0);
}

template <typename T>
void expect_gru_backward(const BackwardStep<T>& step, std::int64_t row, std::int64_t unit) {
  const std::int64_t at = step.at(row, unit, 1, 0);
  double s[4];
  for (int i = 0; i < 4; ++i) s[i] = step.saved[step.at(row, unit, 4, i)];
  const double h_prev = value_of(step.h_prev[row * step.args.h_prev_stride + unit]);
  const double dh = step.dh[at], dn = dh * (1 - s[1]) * (1 - s[2] * s[2]);
  const double dr = dn * s[3] * s[0] * (1 - s[0]), dz = dh * (h_prev - s[2]) * s[1] * (1 - s[1]);
  const double input[3] = {dr, dz, dn}, hidden[3] = {dr, dz, dn * s[0]};
  const double error = 16 * kUnit * 8;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t gate = step.at(row, unit, 3, i);
    ASSERT_NEAR(value_of(step.d_input[gate]), input[i], error + kStored<T> * std::abs(input[i]));
    ASSERT_NEAR(value_of(step.d_hidden[gate]), hidden[i], error + kStored<T> * std::abs(hidden[i]));
  }
  ASSERT_NEAR(step.dh_direct[at], dh * s[1], error);
}

TYPED_TEST(LeafBackward, BackwardStepsAreTheNaiveOnes) {
  using T = TypeParam;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    for (int i = 0; i < 30; ++i) {
      const std::int64_t gates = i % 2 == 0 ? 4 : 3;
      BackwardStep<T> step(this->pick(1, 20), this->pick(1, 75), gates);
      SCOPED_TRACE(name + " gates " + std::to_string(gates) + " rows " + std::to_string(step.rows) +
                   " units " + std::to_string(step.units));
      for (auto* buffer : {&step.saved, &step.c_prev, &step.c, &step.dh, &step.dc}) {
        this->fill(*buffer, 1);
        this->clear_padding(*buffer, step.units, buffer == &step.saved ? 4 : 1);
      }
      std::memcpy(step.dc_before.data(), step.dc.data(),
                  static_cast<std::size_t>(step.dc.size()) * sizeof(float));
      this->fill_rows(step.h_prev, step.units, step.args.h_prev_stride);
      this->poison(step.d_input);
      this->poison(step.d_hidden);
      this->poison(step.dh_direct);
      for (std::int32_t& length : step.lengths)
        length = static_cast<std::int32_t>(this->pick(4, 9));
      gates == 4 ? leaf->lstm.backward(step.args) : leaf->gru.backward(step.args);
      for (std::int64_t row = 0; row < step.rows; ++row) {
        const bool active = step.args.t < step.lengths[row];
        for (std::int64_t unit = 0; unit < step.panels * kPanel; ++unit) {
          const std::int64_t at = step.at(row, unit, 1, 0);
          if (active && unit < step.units) {
            ASSERT_NO_FATAL_FAILURE(gates == 4 ? expect_lstm_backward(step, row, unit)
                                               : expect_gru_backward(step, row, unit));
            continue;
          }
          for (std::int64_t gate = 0; gate < gates; ++gate) {
            ASSERT_EQ(value_of(step.d_input[step.at(row, unit, gates, gate)]), 0);
            if (gates == 3) {
              ASSERT_EQ(value_of(step.d_hidden[step.at(row, unit, gates, gate)]), 0);
            }
          }
          ASSERT_EQ(step.dh_direct[at], step.dh[at]);  // both zero past the units
          ASSERT_EQ(step.dc[at], step.dc_before[at]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
