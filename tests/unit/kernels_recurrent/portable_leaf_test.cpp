#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/recurrent/cpu/leaf.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

using base::BFloat16;

template <typename T>
class PortableLeaf : public ::testing::Test {
 protected:
  template <typename U>
  std::vector<U> random(std::int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<U> values(static_cast<std::size_t>(count));
    for (U& value : values) value = static_cast<U>(static_cast<Sum<T>>(uniform(generator_)));
    return values;
  }

  std::vector<T> pack(const std::vector<Sum<T>>& source, std::int64_t units, std::int64_t depth,
                      std::int64_t blocks) {
    std::vector<T> packed(static_cast<std::size_t>(leaf_.packed_size(units, depth, blocks)));
    leaf_.pack({source.data(), units * depth, depth, 1, units, depth, blocks, packed.data(), 0,
                panels_of(units)});
    return packed;
  }

  const Leaf<T>& leaf_ = portable_leaf<T>();
  std::mt19937 generator_{20};
};

using Types = ::testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(PortableLeaf, Types);

// One row must give the same bits alone as among others, and the sum must start from the bias.
TYPED_TEST(PortableLeaf, ProductSumsInRisingOrder) {
  using T = TypeParam;
  using S = Sum<TypeParam>;
  const std::int64_t units = 19, depth = 13, blocks = 3, rows = 5;
  const std::int64_t width = panels_of(units) * blocks * kPanel;
  const auto source = this->template random<S>(blocks * units * depth);
  const auto packed = this->pack(source, units, depth, blocks);
  const auto a = this->template random<T>(rows * depth);
  const auto bias = this->template random<S>(width);
  std::vector<S> out(static_cast<std::size_t>(rows * width), std::numeric_limits<S>::quiet_NaN());
  this->leaf_.product({a.data(), depth, rows, depth, blocks, packed.data(), bias.data(), false,
                       out.data(), width, 0, panels_of(units)});
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const std::int64_t column = ((unit / kPanel) * blocks + block) * kPanel + unit % kPanel;
        S sum = bias[column];
        for (std::int64_t k = 0; k < depth; ++k) {
          const S weight = static_cast<S>(T(source[(block * units + unit) * depth + k]));
          sum = sum + static_cast<S>(a[row * depth + k]) * weight;
        }
        ASSERT_EQ(out[row * width + column], sum) << row << ' ' << block << ' ' << unit;
      }
    }
  }
}

// An inactive row keeps its state, its y is zero, and NaN in its input reaches nothing.
TYPED_TEST(PortableLeaf, StepKeepsInactiveRows) {
  using T = TypeParam;
  using S = Sum<TypeParam>;
  const std::int64_t units = 21, rows = 3, panels = panels_of(units), width = panels * kPanel;
  const auto weights = this->pack(this->template random<S>(4 * units * units), units, units, 4);
  auto pre = this->template random<S>(rows * width * 4);
  std::fill_n(pre.begin() + width * 4, width * 4, std::numeric_limits<S>::quiet_NaN());
  const auto h = this->template random<T>(rows * units);
  const auto c = this->template random<S>(rows * width);
  const std::vector<std::int32_t> lengths{8, 7, 9};
  std::vector<T> h_next(h.size()), y(h.size());
  std::vector<S> c_next(c.size());
  StepArgs<T> step{};
  step.row_end = rows;
  step.panel_end = panels;
  step.units = step.depth = step.h_prev_stride = step.h_next_stride = step.y_stride = units;
  step.h_prev = h.data();
  step.packed = weights.data();
  step.pre = pre.data();
  step.lengths = lengths.data();
  step.t = 7;
  step.c_prev = c.data();
  step.c_next = c_next.data();
  step.h_next = h_next.data();
  step.y = y.data();
  this->leaf_.lstm.forward(step);
  for (std::int64_t unit = 0; unit < units; ++unit) {
    EXPECT_EQ(std::memcmp(&h_next[units + unit], &h[units + unit], sizeof(T)), 0);
    EXPECT_EQ(c_next[width + unit], c[width + unit]);
    EXPECT_EQ(static_cast<S>(y[units + unit]), S(0));
    EXPECT_TRUE(std::isfinite(static_cast<S>(y[unit])));
    EXPECT_EQ(static_cast<S>(y[unit]), static_cast<S>(h_next[unit]));
    EXPECT_NE(static_cast<S>(y[unit]), static_cast<S>(h[unit]));
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
