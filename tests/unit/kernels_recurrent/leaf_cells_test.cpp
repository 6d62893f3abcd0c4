// The cells that leaf_step_test and leaf_backward_test have not: plain RNNs, and the GRU that
// resets before the product. Every leaf against a naive computation in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/kernels_recurrent/leaf_case.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

constexpr std::int64_t kTime = 5;

/// Buffers of a step and its backward, filled with numbers in [-1, 1], zeros in padding and NaN
/// where something has to be written.
template <typename T>
class LeafCells : public LeafTest<T> {
 protected:
  struct Buffers {
    Buffers(std::int64_t rows_, std::int64_t units_, std::int64_t gates_, std::int64_t saved_)
        : rows(rows_),
          units(units_),
          gates(gates_),
          saved_count(saved_),
          panels(panels_of(units)),
          h_prev((rows - 1) * (units + 3) + units),
          h_next((rows - 1) * (units + 1) + units),
          y(h_next.size()),
          d_input(rows * panels * gates * kPanel),
          d_hidden(d_input.size()),
          pre(d_input.size()),
          recurrent(d_input.size()),
          saved(rows * panels * saved_count * kPanel),
          dh(rows * panels * kPanel),
          dh_direct(dh.size()),
          lengths(rows) {}

    std::int64_t at(std::int64_t row, std::int64_t unit, std::int64_t count, std::int64_t i) const {
      return ((row * panels + unit / kPanel) * count + i) * kPanel + unit % kPanel;
    }
    /// Of gates that are multiplied one by one.
    std::int64_t part(std::int64_t row, std::int64_t unit, std::int64_t gate) const {
      return gate * rows * panels * kPanel + at(row, unit, 1, 0);
    }
    double h(std::int64_t row, std::int64_t unit) const {
      return value_of(h_prev[row * (units + 3) + unit]);
    }
    bool active(std::int64_t row) const { return kTime < lengths[row]; }

    StepArgs<T> forward() {
      StepArgs<T> args{};
      args.row_end = rows;
      args.panel_end = panels;
      args.units = args.depth = units;
      args.h_prev = h_prev.data();
      args.h_prev_stride = units + 3;
      args.pre = pre.data();
      args.recurrent = recurrent.data();
      args.recurrent_stride = rows * panels * kPanel;
      args.lengths = lengths.data();
      args.t = kTime;
      args.h_next = h_next.data();
      args.h_next_stride = args.y_stride = units + 1;
      args.y = y.data();
      args.saved = saved.data();
      return args;
    }
    StepBackwardArgs<T> backward() {
      StepBackwardArgs<T> args{};
      args.row_end = rows;
      args.panel_end = panels;
      args.units = units;
      args.lengths = lengths.data();
      args.t = kTime;
      args.saved = saved.data();
      args.h_prev = h_prev.data();
      args.h_prev_stride = units + 3;
      args.dh = dh.data();
      args.dh_direct = dh_direct.data();
      args.d_gates_input = d_input.data();
      return args;
    }

    std::int64_t rows, units, gates, saved_count, panels;
    GuardedBuffer<T> h_prev, h_next, y, d_input, d_hidden;
    GuardedBuffer<float> pre, recurrent, saved, dh, dh_direct;
    GuardedBuffer<std::int32_t> lengths;
  };

  void fill_all(Buffers& b) {
    this->fill_rows(b.h_prev, b.units, b.units + 3);
    for (auto* buffer : {&b.pre, &b.recurrent, &b.saved, &b.dh}) this->fill(*buffer, 1);
    this->clear_padding(b.pre, b.units, b.gates);
    this->clear_padding(b.recurrent, b.units, 1);
    this->clear_padding(b.saved, b.units, b.saved_count);
    this->clear_padding(b.dh, b.units, 1);
    for (auto* buffer : {&b.h_next, &b.y, &b.d_input, &b.d_hidden}) this->poison(*buffer);
    this->poison(b.dh_direct);
    for (std::int32_t& length : b.lengths) length = static_cast<std::int32_t>(this->pick(4, 9));
  }

  /// Calls body(leaf, buffers) for shapes drawn anew.
  template <typename Body>
  void each(std::int64_t gates, std::int64_t saved, const Body& body) {
    for (const auto& [name, leaf, same_bits] : leaves<T>()) {
      for (int i = 0; i < 12; ++i) {
        Buffers buffers(this->pick(1, 20), this->pick(1, 75), gates, saved);
        fill_all(buffers);
        SCOPED_TRACE(name + " rows " + std::to_string(buffers.rows) + " units " +
                     std::to_string(buffers.units));
        ASSERT_NO_FATAL_FAILURE(body(*leaf, buffers));
      }
    }
  }

  template <typename Body>
  static void each_unit(const Buffers& b, const Body& body) {
    for (std::int64_t row = 0; row < b.rows; ++row) {
      for (std::int64_t unit = 0; unit < b.units; ++unit) {
        ASSERT_NO_FATAL_FAILURE(body(row, unit)) << row << ' ' << unit;
      }
    }
  }

  /// h_next and y of an active unit, or what an inactive one keeps.
  static void expect_state(const Buffers& b, std::int64_t row, std::int64_t unit, double want,
                           double error) {
    const std::int64_t at = row * (b.units + 1) + unit;
    if (!b.active(row)) {
      ASSERT_EQ(value_of(b.h_next[at]), b.h(row, unit));
      ASSERT_EQ(value_of(b.y[at]), 0);
      return;
    }
    ASSERT_NEAR(value_of(b.h_next[at]), want, error + kStored<T> * std::abs(want));
    ASSERT_EQ(value_of(b.y[at]), value_of(b.h_next[at]));
  }

  static void expect_gate(T got, double want) {
    ASSERT_NEAR(value_of(got), want, kError + kStored<T> * std::abs(want));
  }

  /// A dozen roundings of values of at most 2, and those of the activations.
  static constexpr double kError = 16 * kUnit * 4 + kActivation<T>;
};
TYPED_TEST_SUITE(LeafCells, LeafTypes);

TYPED_TEST(LeafCells, PlainRnnStepsAreTheNaiveOnes) {
  using T = TypeParam;
  for (const bool multiplied : {true, false}) {
    for (const bool relu : {true, false}) {
      this->each(1, 1, [&](const Leaf<T>& leaf, auto& b) {
        const Matrix<T> weights(leaf, b.units, b.units, 1, false, this->generator_);
        StepArgs<T> args = b.forward();
        args.packed = weights.packed.data();
        if (!multiplied) args.recurrent = nullptr;
        (relu ? leaf.rnn_relu : leaf.rnn_tanh).forward(args);
        this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
          const std::int64_t at = b.at(row, unit, 1, 0);
          Bounded sum;
          sum.add(b.pre[at]);
          if (multiplied) {
            sum.add(b.recurrent[at]);
          } else {
            sum = row_times(b.h_prev.data() + row * (b.units + 3), weights, 0, unit, b.pre[at]);
          }
          const double want = relu ? std::max(sum.value, 0.0) : std::tanh(sum.value);
          const double error = this->kError + sum.error();
          this->expect_state(b, row, unit, want, error);
          if (!b.active(row)) return;
          ASSERT_NEAR(b.saved[at], want, error);
        });
      });
    }
  }
}

TYPED_TEST(LeafCells, PlainRnnKeepsNaN) {
  using T = TypeParam;
  this->each(1, 1, [&](const Leaf<T>& leaf, auto& b) {
    for (float& sum : b.pre) sum = std::numeric_limits<float>::quiet_NaN();
    leaf.rnn_relu.forward(b.forward());
    this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
      if (!b.active(row)) return;
      ASSERT_TRUE(std::isnan(value_of(b.y[row * (b.units + 1) + unit])));
    });
  });
}

TYPED_TEST(LeafCells, PlainRnnBackwardStepsAreTheNaiveOnes) {
  using T = TypeParam;
  for (const bool relu : {true, false}) {
    this->each(1, 1, [&](const Leaf<T>& leaf, auto& b) {
      for (std::int64_t i = 0; i < b.saved.size(); i += 3) b.saved[i] = 0;
      (relu ? leaf.rnn_relu : leaf.rnn_tanh).backward(b.backward());
      this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
        const std::int64_t at = b.at(row, unit, 1, 0);
        const double h = b.saved[at], dh = b.dh[at];
        const double slope = relu ? (h > 0 ? 1 : 0) : 1 - h * h;
        this->expect_gate(b.d_input[at], b.active(row) ? dh * slope : 0);
        ASSERT_EQ(b.dh_direct[at], b.active(row) ? 0 : b.dh[at]);
      });
    });
  }
}

TYPED_TEST(LeafCells, ResetMultipliesTheStateByItsGate) {
  using T = TypeParam;
  this->each(3, 3, [&](const Leaf<T>& leaf, auto& b) {
    StepArgs<T> args = b.forward();
    args.y = nullptr;
    leaf.reset.forward(args);
    this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
      const double r = sigmoid(static_cast<double>(b.pre[b.at(row, unit, 3, 0)]) +
                               b.recurrent[b.part(row, unit, 0)]);
      const double want = b.active(row) ? r * b.h(row, unit) : 0;
      ASSERT_NEAR(value_of(b.h_next[row * (b.units + 1) + unit]), want,
                  this->kError + kStored<T> * std::abs(want));
    });
  });
}

TYPED_TEST(LeafCells, GruThatResetsBeforeStepsAsTheNaiveOne) {
  using T = TypeParam;
  this->each(3, 3, [&](const Leaf<T>& leaf, auto& b) {
    leaf.gru_reset_before.forward(b.forward());
    this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
      const auto sum = [&](std::int64_t gate) {
        return static_cast<double>(b.pre[b.at(row, unit, 3, gate)]) +
               b.recurrent[b.part(row, unit, gate)];
      };
      const double z = sigmoid(sum(1)), n = std::tanh(sum(2));
      this->expect_state(b, row, unit, (1 - z) * n + z * b.h(row, unit), 2 * this->kError);
      if (!b.active(row)) return;
      ASSERT_NEAR(b.saved[b.at(row, unit, 3, 0)], sigmoid(sum(0)), this->kError);
      ASSERT_NEAR(b.saved[b.at(row, unit, 3, 1)], z, this->kError);
      ASSERT_NEAR(b.saved[b.at(row, unit, 3, 2)], n, this->kError);
    });
  });
}

// First the cell's backward, which leaves r open, then that of the reset.
TYPED_TEST(LeafCells, GruThatResetsBeforeStepsBackAsTheNaiveOne) {
  using T = TypeParam;
  this->each(3, 3, [&](const Leaf<T>& leaf, auto& b) {
    StepBackwardArgs<T> args = b.backward();
    args.d_gates_hidden = b.d_hidden.data();
    args.d_hidden_stride = b.rows * b.panels * kPanel;
    leaf.gru_reset_before.backward(args);
    GuardedBuffer<float> d_reset(b.dh.size());
    this->fill(d_reset, 1);
    this->clear_padding(d_reset, b.units, 1);
    std::vector<float> before(d_reset.begin(), d_reset.end());
    StepBackwardArgs<T> reset = args;
    reset.dh = reset.dh_direct = d_reset.data();
    leaf.reset.backward(reset);
    this->each_unit(b, [&](std::int64_t row, std::int64_t unit) {
      const std::int64_t at = b.at(row, unit, 1, 0);
      const bool active = b.active(row);
      const double r = b.saved[b.at(row, unit, 3, 0)], z = b.saved[b.at(row, unit, 3, 1)];
      const double n = b.saved[b.at(row, unit, 3, 2)], dh = b.dh[at], h = b.h(row, unit);
      const double d = before[static_cast<std::size_t>(at)];
      const double want[3] = {d * h * r * (1 - r), dh * (h - n) * z * (1 - z),
                              dh * (1 - z) * (1 - n * n)};
      for (std::int64_t gate = 0; gate < 3; ++gate) {
        this->expect_gate(b.d_input[b.at(row, unit, 3, gate)], active ? want[gate] : 0);
        this->expect_gate(b.d_hidden[b.part(row, unit, gate)], active ? want[gate] : 0);
      }
      ASSERT_NEAR(b.dh_direct[at], active ? dh * z : dh, this->kError);
      ASSERT_NEAR(d_reset[at], active ? d * r : d, this->kError);
    });
  });
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
