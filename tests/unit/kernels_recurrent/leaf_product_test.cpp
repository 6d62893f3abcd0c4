#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "unit/kernels_recurrent/leaf_case.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
class LeafProduct : public LeafTest<T> {};
TYPED_TEST_SUITE(LeafProduct, LeafTypes);

TYPED_TEST(LeafProduct, ProductIsTheNaiveOne) {
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

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
