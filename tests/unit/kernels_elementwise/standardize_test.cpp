#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::elementwise {
namespace {

using base::BFloat16;
using base::DType;
using base::dtype_of;
using base::Float16;
using testing::random_values;
using testing::widened;

class Standardize : public testing::OnDevice {
 protected:
  template <typename T, typename Master>
  void check(std::int64_t rows, std::int64_t columns) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(rows + columns));
    const auto x = random_values<float>(engine, rows * columns, 30);
    const auto mean = random_values<Master>(engine, columns, 20);
    const auto factor = random_values<Master>(engine, columns, 3);
    const Tensor y = poisoned(dtype_of<T>(), {rows, columns});
    standardize(context_, {put(x, {rows, columns}), put(mean), put(factor), y});
    const auto result = widened(get<T>(y));
    // The difference and the product are rounded, and what is stored: each relative to the result.
    const double unit = std::is_same_v<T, double>    ? 0x1p-51
                        : std::is_same_v<T, float>   ? 0x1p-22
                        : std::is_same_v<T, Float16> ? 0x1p-11 + 0x1p-22
                                                     : 0x1p-8 + 0x1p-22;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t j = i % static_cast<std::size_t>(columns);
      const double expected = (static_cast<double>(x[i]) - static_cast<double>(mean[j])) *
                              static_cast<double>(factor[j]);
      // Numbers of float16 lie at least 2^-24 apart.
      ASSERT_NEAR(result[i], expected, unit * std::abs(expected) + 0x1p-25) << i;
    }
  }

  template <typename T, typename Master = float>
  void check_all() {
    for (const std::int64_t columns : {1, 3, 40, 129}) {
      for (const std::int64_t rows : {0, 1, 7, 513}) check<T, Master>(rows, columns);
    }
  }
};

TEST_P(Standardize, EqualsTheDefinition) {
  check_all<float>();
  check_all<BFloat16>();
  check_all<Float16>();
}

TEST_P(Standardize, Float64EqualsTheDefinition) {
  const bool ran = try_float64([&] { check_all<double, double>(); });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

TEST_P(Standardize, RefusesWhatDoesNotFit) {
  const Tensor x = poisoned(DType::kFloat32, {3, 4}), row = poisoned(DType::kFloat32, {4});
  EXPECT_THROW(standardize(context_, {x, row, row, poisoned(DType::kFloat32, {4, 3})}), Error);
  EXPECT_THROW(standardize(context_, {x, poisoned(DType::kFloat32, {3}), row, x}), Error);
  EXPECT_THROW(standardize(context_, {x, row, poisoned(DType::kFloat64, {4}), x}), Error);
  EXPECT_THROW(standardize(context_, {poisoned(DType::kFloat64, {3, 4}), row, row, x}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Standardize, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::elementwise
