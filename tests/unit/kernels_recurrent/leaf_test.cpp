#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/recurrent/cpu/leaves.h"
#include "unit/kernels_recurrent/emulated_amx_leaf.h"
#include "unit/kernels_recurrent/guarded_buffer.h"

/// Every leaf that this machine runs against a naive computation in double of what leaf.h says.
namespace sluice::kernels::recurrent::cpu {
namespace {

using base::BFloat16;
using sluice::testing::GuardedBuffer;

constexpr double kUnit = 0x1p-24;  ///< half a unit in the last place of a float32, relative

template <typename T>
struct Named {
  std::string name;
  const Leaf<T>* leaf;
  /// Whether a row alone has the bits it has in a batch. The tiles sum even and odd elements of a
  /// depth of 32 apart, and fewer rows than they are worth take another way.
  bool same_bits = true;
};

template <typename T>
std::vector<Named<T>> leaves();

template <>
std::vector<Named<float>> leaves() {
  std::vector<Named<float>> list{{"portable", &portable_leaf<float>()}};
  if (const auto* leaf = avx2_leaf_f32()) list.push_back({"avx2", leaf});
  if (const auto* leaf = avx512_leaf_f32()) list.push_back({"avx512", leaf});
  return list;
}

template <>
std::vector<Named<BFloat16>> leaves() {
  std::vector<Named<BFloat16>> list{{"portable", &portable_leaf<BFloat16>()}};
  if (const auto* leaf = avx512_leaf_bf16()) {
    list.push_back({"avx512", leaf});
    list.push_back({"emulated amx", &kEmulatedAmxLeaf, false});
  }
  if (const auto* leaf = amx_leaf_bf16()) list.push_back({"amx", leaf, false});
  return list;
}

double value_of(float x) { return x; }
double value_of(BFloat16 x) { return static_cast<float>(x); }

/// Half a unit of the storage type relative to its value; 0 for float32, whose rounding the other
/// terms cover.
template <typename T>
constexpr double kStored = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0.0;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <typename T>
class LeafTest : public ::testing::Test {
 protected:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }
  double uniform(double scale) {
    return std::uniform_real_distribution<double>(-scale, scale)(generator_);
  }
  template <typename U>
  void fill(GuardedBuffer<U>& buffer, double scale) {
    for (U& x : buffer) x = static_cast<U>(static_cast<float>(uniform(scale)));
  }
  template <typename U>
  void poison(GuardedBuffer<U>& buffer) {
    for (U& x : buffer) x = static_cast<U>(std::numeric_limits<float>::quiet_NaN());
  }
  /// [rows, columns] with `stride` between rows and NaN between them.
  void fill_rows(GuardedBuffer<T>& buffer, std::int64_t columns, std::int64_t stride) {
    poison(buffer);
    for (std::int64_t i = 0; i < buffer.size(); ++i) {
      if (i % stride < columns) buffer[i] = static_cast<T>(static_cast<float>(uniform(1)));
    }
  }
  /// [.., panels, blocks, 16] with zeros past the units.
  void clear_padding(GuardedBuffer<float>& buffer, std::int64_t units, std::int64_t blocks) {
    const std::int64_t panels = panels_of(units);
    for (std::int64_t i = 0; i < buffer.size(); ++i) {
      if (i / (kPanel * blocks) % panels * kPanel + i % kPanel >= units) buffer[i] = 0;
    }
  }

  std::mt19937 generator_{7};
};

using Types = ::testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(LeafTest, Types);

/// A matrix [blocks, units, depth] as the leaf sees it, and packed.
template <typename T>
struct Matrix {
  std::int64_t units, depth, blocks;
  GuardedBuffer<float> source;
  GuardedBuffer<T> packed;
  bool transposed;  ///< whether the source is [blocks, depth, units]

  Matrix(const Leaf<T>& leaf, std::int64_t units_, std::int64_t depth_, std::int64_t blocks_,
         bool transposed_, std::mt19937& generator)
      : units(units_),
        depth(depth_),
        blocks(blocks_),
        source(units * depth * blocks),
        packed(leaf.packed_size(units, depth, blocks)),
        transposed(transposed_) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : source) x = uniform(generator);
    for (T& x : packed) x = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    const std::int64_t split = panels_of(units) / 2;  // two calls must fill it all
    for (const auto& [begin, end] :
         {std::pair{std::int64_t{0}, split}, {split, panels_of(units)}}) {
      leaf.pack({source.data(), units * depth, transposed ? 1 : depth, transposed ? units : 1,
                 units, depth, blocks, packed.data(), begin, end});
    }
  }

  double at(std::int64_t block, std::int64_t unit, std::int64_t k) const {
    if (unit >= units) return 0;
    const std::int64_t in_block = transposed ? k * units + unit : unit * depth + k;
    return value_of(static_cast<T>(source[block * units * depth + in_block]));
  }
};

/// A sum in double, and the bound on the error of any order of float32 sums: every term takes part
/// in at most n roundings of half a unit, n the number of additions.
struct Bounded {
  double value = 0, magnitude = 0;
  std::int64_t count = 0;
  void add(double x) {
    value += x;
    magnitude += std::abs(x);
    ++count;
  }
  double error() const { return static_cast<double>(count + 1) * kUnit * magnitude; }
};

template <typename T>
Bounded row_times(const T* row, const Matrix<T>& matrix, std::int64_t block, std::int64_t unit,
                  double start) {
  Bounded sum;
  sum.add(start);
  for (std::int64_t k = 0; k < matrix.depth; ++k) {
    sum.add(value_of(row[k]) * matrix.at(block, unit, k));
  }
  return sum;
}

TYPED_TEST(LeafTest, ProductIsTheNaiveOne) {
  using T = TypeParam;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    for (int i = 0; i < 60; ++i) {
      const std::int64_t blocks = std::array{1, 3, 4}[i % 3];
      const std::int64_t rows = this->pick(1, i < 40 ? 20 : 110), depth = this->pick(1, 75);
      const std::int64_t units = this->pick(1, 90), panels = panels_of(units);
      const std::int64_t width = panels * blocks * kPanel;
      const std::int64_t a_stride = depth + this->pick(0, 3), stride = width + this->pick(0, 20);
      const std::int64_t begin = this->pick(0, panels - 1), end = this->pick(begin + 1, panels);
      const bool accumulate = i % 5 == 0, with_bias = i % 2 == 0;
      SCOPED_TRACE(name + " rows " + std::to_string(rows) + " depth " + std::to_string(depth) +
                   " units " + std::to_string(units) + " blocks " + std::to_string(blocks) +
                   " panels " + std::to_string(begin) + "-" + std::to_string(end));
      const Matrix<T> matrix(*leaf, units, depth, blocks, i % 4 == 0, this->generator_);
      GuardedBuffer<T> a((rows - 1) * a_stride + depth);
      this->fill_rows(a, depth, a_stride);
      GuardedBuffer<float> bias(width), out((rows - 1) * stride + width), before(out.size());
      this->fill(bias, 1);
      this->poison(out);
      if (accumulate) this->fill(out, 1);
      std::memcpy(before.data(), out.data(), static_cast<std::size_t>(out.size()) * sizeof(float));
      leaf->product({a.data(), a_stride, rows, depth, blocks, matrix.packed.data(),
                     with_bias ? bias.data() : nullptr, accumulate, out.data(), stride, begin,
                     end});
      for (std::int64_t j = 0; j < out.size(); ++j) {
        const std::int64_t row = j / stride, column = j % stride;
        const std::int64_t panel = column / (blocks * kPanel);
        if (panel < begin || panel >= end) {
          ASSERT_EQ(std::memcmp(&out[j], &before[j], sizeof(float)), 0) << row << ' ' << column;
          continue;
        }
        const double start = accumulate ? before[j] : with_bias ? bias[column] : 0;
        const Bounded want = row_times(a.data() + row * a_stride, matrix, column / kPanel % blocks,
                                       panel * kPanel + column % kPanel, start);
        ASSERT_NEAR(out[j], want.value, want.error()) << row << ' ' << column;
      }
    }
  }
}

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
    gates == 4 ? leaf.lstm_step(step) : leaf.gru_step(step);
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
  // roundings follow, each of values no larger than that.
  Expected out{};
  if (lstm) {
    const double c_prev = step.c_prev[step.at(row, unit, 1, 0)];
    const double i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = std::tanh(sums[2]);
    const double o = sigmoid(sums[3]), c = f * c_prev + i * g;
    out = {{i, f, g, o}, c, o * std::tanh(c), 0};
    out.error = (1 + std::abs(c_prev)) * (error + 16 * kUnit);
  } else {
    const double r = sigmoid(sums[0]), z = sigmoid(sums[1]);
    const double n = std::tanh(step.pre[step.at(row, unit, 3, 2)] + r * sums[2]);
    const double h_prev = value_of(step.h_row(row)[unit]);
    out = {{r, z, n, sums[2]}, 0, (1 - z) * n + z * h_prev, 0};
    out.error = (2 + std::abs(sums[2]) + std::abs(h_prev)) * (error + 16 * kUnit);
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

TYPED_TEST(LeafTest, StepsAreTheNaiveOnes) {
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
TYPED_TEST(LeafTest, CellStateInPlace) {
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

TYPED_TEST(LeafTest, RowAloneHasTheBitsOfTheBatch) {
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

TYPED_TEST(LeafTest, BackwardStepsAreTheNaiveOnes) {
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
      gates == 4 ? leaf->lstm_step_backward(step.args) : leaf->gru_step_backward(step.args);
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

/// Sigmoid and tanh of every x of a list, by steps without a recurrent product: the gates are
/// saved.
template <typename T>
std::pair<std::vector<float>, std::vector<float>> activations(const Leaf<T>& leaf,
                                                              const std::vector<float>& x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / kPanel;
  std::vector<float> pre(x.size() * 4), saved(x.size() * 4), c(x.size());
  for (std::size_t i = 0; i < pre.size(); ++i) pre[i] = x[i / 64 * 16 + i % 16];
  std::vector<T> h(x.size());
  StepArgs<T> step{};
  step.row_end = rows;
  step.panel_end = 1;
  step.units = kPanel;
  step.h_prev = h.data();
  step.pre = pre.data();
  step.c_prev = step.c_next = c.data();
  step.h_next = step.y = h.data();
  step.h_next_stride = step.y_stride = kPanel;
  step.saved = saved.data();
  leaf.lstm_step(step);
  std::pair<std::vector<float>, std::vector<float>> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.first.push_back(saved[i / 16 * 64 + i % 16]);
    out.second.push_back(saved[i / 16 * 64 + 32 + i % 16]);
  }
  return out;
}

double units_off(float value, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(value - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

TYPED_TEST(LeafTest, ActivationsAreAccurate) {
  using T = TypeParam;
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 0x5001) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(value)) x.push_back(value);
  }
  for (int i = -100000; i < 100000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  x.resize(x.size() / kPanel * kPanel);
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    const auto [sigmoids, tanhs] = activations(*leaf, x);
    double worst_sigmoid = 0, worst_tanh = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst_tanh = std::max(worst_tanh, units_off(tanhs[i], std::tanh(static_cast<double>(x[i]))));
      const double exact = sigmoid(x[i]);
      if (x[i] > -87) {
        worst_sigmoid = std::max(worst_sigmoid, units_off(sigmoids[i], exact));
      } else {
        ASSERT_NEAR(sigmoids[i], exact, 1.7e-38) << name << ' ' << x[i];
      }
    }
    EXPECT_LT(worst_sigmoid, 3) << name;
    EXPECT_LT(worst_tanh, 3) << name;
    this->RecordProperty("worst_" + name,
                         std::to_string(worst_sigmoid) + " " + std::to_string(worst_tanh));
  }
}

TYPED_TEST(LeafTest, ActivationsOfWhatIsNoNumber) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(kPanel);
  x[0] = kInfinity;
  x[1] = -kInfinity;
  x[2] = std::numeric_limits<float>::quiet_NaN();
  x[3] = -0.0f;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    SCOPED_TRACE(name);
    const auto [sigmoids, tanhs] = activations(*leaf, x);
    EXPECT_EQ(sigmoids[0], 1);
    EXPECT_NEAR(sigmoids[1], 0, 1.7e-38);
    EXPECT_TRUE(std::isnan(sigmoids[2]));
    EXPECT_EQ(tanhs[0], 1);
    EXPECT_EQ(tanhs[1], -1);
    EXPECT_TRUE(std::isnan(tanhs[2]));
    EXPECT_TRUE(std::signbit(tanhs[3]));
    EXPECT_EQ(sigmoids[3], 0.5f);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
