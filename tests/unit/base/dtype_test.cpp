#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice::base {
namespace {

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                            DType::kInt64, DType::kInt32, DType::kUInt8}) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("bf16"), DType::kBFloat16);
  EXPECT_THROW(parse_dtype("float33"), Error);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1p-8f)), 1.0f);              // tie to even
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1.8p-7f)), 1.0f + 0x1p-6f);  // tie to even, up
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f + 0x1.1p-8f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
}

TEST(Float16, RoundsToNearestEven) {
  const auto rounded = [](float value) { return static_cast<float>(Float16(value)); };
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(rounded(1.0f + 0x1p-11f), 1.0f);                // tie to even
  EXPECT_EQ(rounded(1.0f + 0x1.8p-10f), 1.0f + 0x1p-9f);    // tie to even, up
  EXPECT_EQ(rounded(1.0f + 0x1.01p-11f), 1.0f + 0x1p-10f);  // above a tie
  EXPECT_EQ(rounded(65504.0f), 65504.0f);
  EXPECT_EQ(rounded(65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(rounded(65520.0f)));
  EXPECT_TRUE(std::isinf(rounded(1e30f)));
  EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()),
            -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  // Subnormal: multiples of 2^-24.
  EXPECT_EQ(rounded(0x1p-24f), 0x1p-24f);
  EXPECT_EQ(rounded(0x1p-25f), 0.0f);
  EXPECT_EQ(rounded(0x1.8p-25f), 0x1p-24f);
  EXPECT_EQ(rounded(0x1.8p-24f), 0x1p-23f);
  EXPECT_EQ(rounded(0x1.fffp-15f), 0x1p-14f);
  EXPECT_TRUE(std::signbit(rounded(-1e-30f)));
}

TEST(Float16, EveryNumberSurvives) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7fffu, 0x7c00u);
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value))));
    } else {
      ASSERT_EQ(Float16(value).bits, bits);
    }
  }
}

}  // namespace
}  // namespace sluice::base
