#include "kernels/matmul/cpu/i8_leaf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "unit/kernels_matmul/emulated_i8_leaf.h"
#include "unit/kernels_recurrent/guarded_buffer.h"

namespace sluice::kernels::matmul::cpu {
namespace {

using Floats = testing::GuardedBuffer<float>;

struct Case {
  std::int64_t rows, units, depth, blocks;
  bool accumulate, bias;
  std::int64_t whole_depth;  ///< of the rows that scales are of: beyond `depth` are other columns
};

/// Operands end where a page begins that faults.
struct Operands {
  Floats a, weights, bias, before;

  Operands(const Case& s, std::uint64_t seed)
      : a(s.rows * s.depth),
        weights(s.blocks * s.units * s.whole_depth),
        bias(columns_of(s)),
        before(s.rows * columns_of(s)) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal;
    for (Floats* values : {&a, &weights, &bias, &before}) {
      for (float& value : *values) value = normal(engine);
    }
    // Rows and units that are all zero, and numbers too small to have an inverse.
    if (seed % 3 == 0) std::fill(a.begin(), a.begin() + s.depth, 0.0f);
    if (seed % 4 == 0) std::fill(weights.begin(), weights.begin() + s.whole_depth, 0.0f);
    if (seed % 5 == 0) std::fill(a.begin(), a.begin() + s.depth, 1e-38f);
  }

  static std::int64_t columns_of(const Case& s) {
    return s.blocks == 1 ? s.units : i8_panels(s.units) * s.blocks * kI8Panel;
  }
};

std::vector<float> product(const I8Leaf& leaf, const Case& s, std::uint64_t seed) {
  Operands o(s, seed);
  const std::int64_t columns = Operands::columns_of(s), panels = i8_panels(s.units);
  testing::GuardedBuffer<std::uint8_t> packed(i8_packed_bytes(s.units, s.depth, s.blocks) + 64);
  auto* aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(packed.data()) + 63) / 64 * 64);
  // Two calls each, as two threads would.
  const std::int64_t middle = panels / 2;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, middle}, std::pair{middle, panels}}) {
    leaf.pack({o.weights.data(), s.units * s.whole_depth, s.whole_depth, s.units, s.depth, s.blocks,
               aligned, begin, end, o.weights.data(), s.whole_depth});
  }
  if (!s.accumulate) std::fill(o.before.begin(), o.before.end(), std::nanf(""));
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, middle}, std::pair{middle, panels}}) {
    leaf.product({o.a.data(), s.depth, s.rows, s.depth, s.blocks, aligned,
                  s.bias ? o.bias.data() : nullptr, s.accumulate, o.before.data(), columns, columns,
                  begin, end});
  }
  return {o.before.begin(), o.before.end()};
}

/// A row as integers from -127 to 127 times a scale, which the largest of `whole` sets; by float32
/// operations as docs/quantization.md has them, for which integer it is hangs on their rounding.
struct Quantized {
  std::vector<double> integers;
  double scale = 0;

  Quantized(const float* values, std::int64_t count, std::int64_t whole, bool weights) {
    float most = 0;
    for (std::int64_t k = 0; k < whole; ++k) most = std::max(most, std::abs(values[k]));
    if (most < 1e-30f) {
      integers.assign(static_cast<std::size_t>(count), 0);
      return;
    }
    const float step = most / 127.0f, inverse = 127.0f / most;
    scale = step;
    for (std::int64_t k = 0; k < count; ++k) {
      const float number = weights ? values[k] / step : values[k] * inverse;
      integers.push_back(std::nearbyint(double{number}));
    }
  }
};

/// The product in double, from the definition.
std::vector<double> expected(const Case& s, std::uint64_t seed) {
  Operands o(s, seed);
  const std::int64_t columns = Operands::columns_of(s);
  std::vector<double> result;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const Quantized a(o.a.data() + row * s.depth, s.depth, s.depth, false);
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t unit = column / (s.blocks * kI8Panel) * kI8Panel + column % kI8Panel;
      const std::int64_t block = column / kI8Panel % s.blocks;
      double sum = s.accumulate ? o.before[row * columns + column] : s.bias ? o.bias[column] : 0.0f;
      if (unit < s.units) {
        const Quantized w(o.weights.data() + (block * s.units + unit) * s.whole_depth, s.depth,
                          s.whole_depth, true);
        double integer = 0;
        for (std::size_t k = 0; k < w.integers.size(); ++k)
          integer += a.integers[k] * w.integers[k];
        sum += integer * a.scale * w.scale;
      }
      result.push_back(sum);
    }
  }
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  std::mt19937_64 engine(7);
  const auto size = [&](std::uint64_t most) {
    return static_cast<std::int64_t>(1 + engine() % most);
  };
  for (int i = 0; i < 60; ++i) {
    const std::int64_t blocks = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : 4;
    const std::int64_t depth = size(i % 10 == 3 ? 1500 : 70);
    all.push_back({size(i % 7 == 0 ? 150 : 9), size(i % 5 == 0 ? 150 : 40), depth, blocks,
                   i % 2 == 0, i % 4 == 1, depth + (i % 4 == 0 ? size(30) : 0)});
  }
  // The deepest, of which one row at a time is brought to integers.
  all.push_back({3, 5, kI8MostDepth, 1, false, true, kI8MostDepth});
  all.push_back({1, 40, 17, 1, true, false, 17});
  return all;
}

class I8Leaves : public ::testing::TestWithParam<const char*> {
 protected:
  static const I8Leaf* leaf(const std::string& name) {
    if (name == "portable") return &kPortableI8Leaf;
    if (name == "emulated_vnni") return &emulated_vnni_leaf();
    if (name == "avx2") return avx2_i8_leaf();
    return name == "avx_vnni" ? avx_vnni_i8_leaf() : avx512_vnni_i8_leaf();
  }
};

// Three roundings of a product of at most some six times sqrt(depth), and one of what is added.
TEST_P(I8Leaves, EqualTheDefinition) {
  const I8Leaf* const under_test = leaf(GetParam());
  if (under_test == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  std::uint64_t seed = 0;
  for (const Case& s : cases()) {
    const auto got = product(*under_test, s, ++seed);
    const auto want = expected(s, seed);
    ASSERT_EQ(got.size(), want.size());
    const double tolerance = 0x1p-24 * (5 + 3 * 6 * std::sqrt(static_cast<double>(s.depth)));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], tolerance)
          << "rows " << s.rows << " units " << s.units << " depth " << s.depth << " element " << i;
    }
  }
}

TEST_P(I8Leaves, GiveTheBitsOfThePortableOne) {
  const I8Leaf* const under_test = leaf(GetParam());
  if (under_test == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  std::uint64_t seed = 0;
  for (const Case& s : cases()) {
    ++seed;
    const auto got = product(*under_test, s, seed), want = product(kPortableI8Leaf, s, seed);
    ASSERT_EQ(0, std::memcmp(got.data(), want.data(), got.size() * sizeof(float)))
        << "case " << seed << " depth " << s.depth << " units " << s.units;
  }
}

// A row alone and the same row among others.
TEST_P(I8Leaves, DoNotMixRows) {
  const I8Leaf* const under_test = leaf(GetParam());
  if (under_test == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  const Case s{23, 37, 61, 4, false, true, 61};
  const auto all = product(*under_test, s, 2);
  Operands o(s, 2);
  testing::GuardedBuffer<float> packed(i8_packed_bytes(s.units, s.depth, s.blocks) / 4);
  under_test->pack({o.weights.data(), s.units * s.depth, s.depth, s.units, s.depth, s.blocks,
                    packed.data(), 0, 3, o.weights.data(), s.depth});
  const std::int64_t columns = Operands::columns_of(s);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    Floats out(columns);
    under_test->product({o.a.data() + row * s.depth, s.depth, 1, s.depth, s.blocks, packed.data(),
                         o.bias.data(), false, out.data(), columns, columns, 0, 3});
    for (std::int64_t i = 0; i < columns; ++i) {
      ASSERT_EQ(out[i], all[static_cast<std::size_t>(row * columns + i)]) << row << " " << i;
    }
  }
}

// What is not finite must not look like a number.
TEST_P(I8Leaves, ShowWhatIsNotFinite) {
  const I8Leaf* const under_test = leaf(GetParam());
  if (under_test == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  const std::vector<float> weights(16 * 20, 0.5f);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(i8_packed_bytes(16, 20, 1)) + 64);
  void* start =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(packed.data()) + 63) / 64 * 64);
  under_test->pack({weights.data(), 0, 20, 16, 20, 1, start, 0, 1, weights.data(), 20});
  for (const std::size_t at : {3, 19}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::vector<float> a(20, 1.0f), out(16);
      a[at] = bad;
      under_test->product(
          {a.data(), 20, 1, 20, 1, start, nullptr, false, out.data(), 16, 16, 0, 1});
      for (const float value : out) EXPECT_FALSE(std::isfinite(value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, I8Leaves,
                         ::testing::Values("portable", "emulated_vnni", "avx2", "avx_vnni",
                                           "avx512_vnni"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace sluice::kernels::matmul::cpu
