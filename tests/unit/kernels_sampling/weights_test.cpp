#include "kernels/sampling/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace sluice::kernels::sampling {
namespace {

static_assert(power_of_half(0) == std::uint64_t{1} << kWeightBits);
static_assert(power_of_half(std::uint64_t{7} << 32) == std::uint64_t{1} << (kWeightBits - 7));
static_assert(power_of_half(std::uint64_t{40} << 32) == 1);
static_assert(power_of_half(std::uint64_t{41} << 32) == 0);
static_assert(power_of_half(std::numeric_limits<std::uint64_t>::max()) == 0);

TEST(SamplingWeights, ArePowersOfTwo) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t distance = engine() % (std::uint64_t{42} << 32);
    const double exact = std::exp2(kWeightBits - static_cast<double>(distance) * 0x1p-32);
    // The polynomial's share, and what the shift drops.
    EXPECT_NEAR(static_cast<double>(power_of_half(distance)), exact, exact * 0x1p-29 + 1);
  }
}

TEST(SamplingWeights, FallWithTheLogit) {
  std::mt19937_64 engine(2);
  Rules rules;
  rules.temperature = 0.7;
  const Distribution distribution(rules);
  for (int i = 0; i < 1000; ++i) {
    const double below = static_cast<double>(engine() >> 40) * 0x1p-24 * 10;
    const double exact = std::exp2(40) * std::exp(-below / 0.7);
    const auto found = static_cast<double>(weight(3.0 - below, 3.0, distribution.scale));
    // Beside the polynomial the fixed point drops 2^-32 of a binary order, or 0.7 * 2^-32.
    EXPECT_NEAR(found, exact, exact * 0x1p-28 + 1);
  }
  EXPECT_EQ(weight(-std::numeric_limits<float>::infinity(), 3.0f, distribution.scale), 0u);
  EXPECT_EQ(weight(3.0f, 3.0f, distribution.scale), std::uint64_t{1} << 40);
}

// Whatever the temperature, what is largest has the full weight.
TEST(SamplingWeights, TakeAnyTemperature) {
  for (const double temperature : {5e-324, 1e-300, 1e-9, 1.0, 1e9, 1e300}) {
    Rules rules;
    rules.temperature = temperature;
    const Distribution distribution(rules);
    EXPECT_EQ(weight(1.0f, 1.0f, distribution.scale), std::uint64_t{1} << 40) << temperature;
    const std::uint64_t lower = weight(0.5f, 1.0f, distribution.scale);
    EXPECT_EQ(lower == 0, temperature < 0.01) << temperature;
  }
}

TEST(SamplingWeights, MultiplyExactly) {
  std::mt19937_64 engine(3);
  __extension__ using Wide = unsigned __int128;
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t a = engine() >> (engine() % 64), b = engine() >> (engine() % 64);
    EXPECT_EQ(high_product(a, b), static_cast<std::uint64_t>(Wide{a} * b >> 64));
    Rules rules;
    rules.top_p = std::max(static_cast<double>(engine() >> 11) * 0x1p-53, 0x1p-32);
    const Distribution distribution(rules);
    const std::uint64_t total = (a >> 1) + 1;
    const auto expected =
        static_cast<std::uint64_t>((Wide{total} * distribution.top_p + 0xffffffffu) >> 32);
    EXPECT_EQ(distribution.part_of(total), std::max<std::uint64_t>(expected, 1));
    EXPECT_LE(distribution.part_of(total), total);
  }
}

template <typename T>
void expect_order() {
  std::mt19937_64 engine(4);
  EXPECT_EQ(ordered_bits(T{0}), ordered_bits(-T{0}));
  EXPECT_GT(ordered_bits(-std::numeric_limits<T>::infinity()), 0u);
  for (int i = 0; i < 1000; ++i) {
    const auto draw = [&] {
      return static_cast<T>(static_cast<double>(static_cast<std::int64_t>(engine())) *
                            std::exp2(-static_cast<int>(engine() % 80)));
    };
    const T a = draw(), b = draw();
    EXPECT_EQ(ordered_bits(a) < ordered_bits(b), a < b);
    EXPECT_EQ(logit_of<T>(ordered_bits(a)), a);
  }
}

TEST(SamplingWeights, OrderLogits) {
  expect_order<float>();
  expect_order<double>();
}

TEST(SamplingWeights, CountWhatMayFollow) {
  Rules rules;
  const auto count = [&](std::int64_t vocabulary, std::int64_t before) {
    const Allowed allowed(rules, -1, before, false);
    std::uint64_t each = 0;
    for (std::int32_t v = 0; v < vocabulary; ++v) each += allowed(v) ? 1 : 0;
    EXPECT_EQ(allowed.count(vocabulary), each);
    return each;
  };
  EXPECT_EQ(count(9, 0), 7u);
  rules.unknown = 1;
  rules.min_length = 2;
  EXPECT_EQ(count(9, 1), 5u);
  EXPECT_EQ(count(9, 2), 6u);
  rules.pad = rules.unknown = rules.bos;
  EXPECT_EQ(count(9, 2), 8u);
  rules.pad = rules.bos = rules.unknown = 100;
  EXPECT_EQ(count(9, 2), 9u);
}

}  // namespace
}  // namespace sluice::kernels::sampling
