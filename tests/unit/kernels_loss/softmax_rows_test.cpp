#include "kernels/loss/cpu/softmax_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/support/on_device.h"

namespace sluice::kernels::loss::cpu {
namespace {

void expect_same(const SoftmaxRows<float>& rows, const SoftmaxRows<float>& reference) {
  std::mt19937_64 engine(1);
  for (const std::int64_t count : {1, 5, 16, 31, 1024, 3001}) {
    const auto x = testing::random_values<float>(engine, count, 50);
    const float maximum = reference.maximum(x.data(), count);
    EXPECT_EQ(rows.maximum(x.data(), count), maximum);
    std::vector<float> a(x), b(x);
    const auto sums_a = rows.sums(a.data(), count, maximum, a.data());
    const auto sums_b = reference.sums(b.data(), count, maximum, b.data());
    EXPECT_EQ(sums_a.values, sums_b.values);
    EXPECT_EQ(sums_a.exponentials, sums_b.exponentials);
    EXPECT_EQ(rows.sums(x.data(), count, maximum, nullptr).exponentials, sums_b.exponentials);
    rows.scale_and_shift(a.data(), count, 0.3f, 0.01f);
    reference.scale_and_shift(b.data(), count, 0.3f, 0.01f);
    EXPECT_TRUE(testing::same_bits(a, b));
  }
}

TEST(SoftmaxRows, AllInstructionSetsGiveTheSameBits) {
  if (__builtin_cpu_supports("avx2")) expect_same(avx2_rows(), portable_rows<float>());
  if (__builtin_cpu_supports("avx512f")) expect_same(avx512_rows(), portable_rows<float>());
}

TEST(SoftmaxRows, ExponentialIsGoodToAFewUnits) {
  const SoftmaxRows<float>& rows = softmax_rows<float>();
  for (float x = -86.9f; x <= 0; x += 0.0137f) {
    float y = 0;
    rows.sums(&x, 1, 0.0f, &y);
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(y / exact, 1, 2 * 0x1p-23) << x;
  }
  float far = -88, y = 1;
  rows.sums(&far, 1, 0.0f, &y);
  EXPECT_EQ(y, 0);
}

}  // namespace
}  // namespace sluice::kernels::loss::cpu
