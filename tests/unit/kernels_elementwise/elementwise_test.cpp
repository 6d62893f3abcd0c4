#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/support/on_device.h"

namespace sluice::kernels::elementwise {
namespace {

using base::BFloat16;
using base::DType;
using base::dtype_of;
using base::Float16;
using base::Shape;
using testing::random_values;
using testing::same_bits;

/// Odd sizes, and one of several chunks.
const std::int64_t kSizes[] = {0, 1, 3, 17, 1000, 40001};

class Elementwise : public testing::OnDevice {
 protected:
  std::mt19937_64 engine_{42};

  template <typename T>
  void check_pointwise() {
    for (const std::int64_t n : kSizes) {
      const auto x = random_values<T>(engine_, n), y = random_values<T>(engine_, n);
      const Tensor dx = put(x), dy = put(y), filled = poisoned(dtype_of<T>(), {n});
      fill(context_, filled, 0.75);
      scale(context_, dx, 0.3);
      accumulate(context_, -0.7, dx, dy);
      const auto scaled = get<T>(dx), sum = get<T>(dy), constant = get<T>(filled);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(constant[i], T(0.75));
        ASSERT_EQ(scaled[i], x[i] * static_cast<T>(0.3));
        ASSERT_EQ(sum[i], y[i] + static_cast<T>(-0.7) * scaled[i]);
      }
    }
  }

  template <typename T>
  void check_tanh(double tolerance) {
    for (const std::int64_t n : kSizes) {
      auto x = random_values<T>(engine_, n, 12);
      for (std::size_t i = 0; i < x.size(); i += 2) {
        x[i] *= static_cast<T>(std::exp2(-static_cast<double>(i % 40)));  // small ones too
      }
      const Tensor dx = put(x), y = poisoned(dtype_of<T>(), {n});
      tanh_forward(context_, dx, y);
      const auto result = get<T>(y);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::tanh(static_cast<double>(x[i]));
        ASSERT_NEAR(result[i], exact, tolerance * std::abs(exact)) << x[i];
      }
      tanh_forward(context_, dx, dx);
      EXPECT_TRUE(same_bits(get<T>(dx), result));
      const auto dy = random_values<T>(engine_, n);
      const Tensor gradient = put(dy);
      tanh_backward(context_, y, gradient, gradient);
      const auto back = get<T>(gradient);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(back[i], dy[i] * (T{1} - result[i] * result[i]));
      }
    }
  }

  template <typename From, typename To>
  void check_convert() {
    const auto x = random_values<From>(engine_, 20001, 100);
    const Tensor target = poisoned(dtype_of<To>(), {20001});
    convert(context_, put(x), target);
    const auto wide = testing::widened(x), result = testing::widened(get<To>(target));
    // Half a unit in the last of 8, 11 or 24 bits.
    const double unit = std::is_same_v<To, BFloat16>  ? 0x1p-8
                        : std::is_same_v<To, Float16> ? 0x1p-11
                        : std::is_same_v<To, float>   ? 0x1p-24
                                                      : 0;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      // Numbers of float16 lie at least 2^-24 apart.
      const double least = std::is_same_v<To, Float16> ? 0x1p-25 : 0;
      ASSERT_NEAR(result[i], wide[i], std::max(least, unit * 1.0001 * std::abs(wide[i])));
    }
  }

  template <typename T>
  void check_rows(std::int64_t rows, std::int64_t columns) {
    const auto x = random_values<T>(engine_, rows * (columns + 3));
    const auto bias = random_values<T>(engine_, columns);
    const Tensor whole = put(x, Shape{rows, columns + 3});
    const Tensor view = whole.slice(1, 0, columns);
    add_bias(context_, put(bias), view);
    const auto biased = get<T>(whole);
    std::vector<double> expected(static_cast<std::size_t>(columns), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t j = i % static_cast<std::size_t>(columns + 3);
      const bool inside = j < static_cast<std::size_t>(columns);
      ASSERT_EQ(biased[i], inside ? x[i] + bias[j] : x[i]);
      if (inside) expected[j] += static_cast<double>(biased[i]);
    }
    const Tensor sums = poisoned(dtype_of<T>(), {columns});
    column_sums(context_, view, sums, false);
    const auto once = get<T>(sums);
    column_sums(context_, view, sums, true);
    const auto twice = get<T>(sums);
    // The same order in float64 gives the same bits; another one is off by at most rows roundings
    // of sums below 2 rows, and by the last rounding.
    const auto most = static_cast<double>(rows);
    const double other_order = device_->runs_host_kernels() ? 0 : 2 * most * most * 0x1p-53;
    const double last = std::is_same_v<T, float> && other_order > 0 ? 0x1p-24 : 0;
    for (std::size_t j = 0; j < expected.size(); ++j) {
      const double exact = std::is_same_v<T, float> && other_order == 0
                               ? static_cast<double>(static_cast<T>(expected[j]))
                               : expected[j];
      ASSERT_NEAR(once[j], exact, other_order + last * std::abs(exact));
      ASSERT_EQ(twice[j], once[j] + once[j]);
    }
  }

  template <typename T>
  void check_dropout(double rate, bool with_ids, std::int64_t features = 131) {
    const std::int64_t time = 5, rows = 7;
    const auto x = random_values<T>(engine_, time * rows * features);
    DropoutArgs args;
    args.x = put(x, Shape{time, rows, features});
    args.y = poisoned(dtype_of<T>(), args.x.shape());
    args.rate = rate;
    const runtime::DropoutKey key{123456789, 17, 3};
    args.source = put_key(key);
    std::vector<std::int32_t> ids;
    for (std::int32_t r = 0; r < rows; ++r) ids.push_back(with_ids ? 1000 - 13 * r : r);
    if (with_ids) args.row_ids = put(ids);
    dropout(context_, args);
    const auto y = get<T>(args.y);
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<T> expected(y.size());
    std::size_t i = 0;
    for (std::uint32_t t = 0; t < time; ++t) {
      for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t u = 0; u < features; ++u, ++i) {
          const bool keep = key.word(static_cast<std::uint32_t>(ids[r]), t, u) >=
                            runtime::dropout_threshold(rate);
          const Wide kept = static_cast<Wide>(x[i]) * static_cast<Wide>(1 / (1 - rate));
          expected[i] = static_cast<T>(keep ? kept : Wide{0});
        }
      }
    }
    EXPECT_TRUE(same_bits(y, expected));
    args.y = args.x;
    dropout(context_, args);
    EXPECT_TRUE(same_bits(get<T>(args.x), y));
  }
};

TEST_P(Elementwise, FillScaleAccumulate) {
  check_pointwise<float>();
  try_float64([&] { check_pointwise<double>(); });
  const Tensor tokens = poisoned(DType::kInt32, {9});
  fill(context_, tokens, 2);
  EXPECT_EQ(get<std::int32_t>(tokens), std::vector<std::int32_t>(9, 2));
}

TEST_P(Elementwise, Tanh) {
  check_tanh<float>(4 * 0x1p-24);
  try_float64([&] { check_tanh<double>(4 * 0x1p-53); });
}

TEST_P(Elementwise, TanhAtTheEdges) {
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> x{infinite, -infinite, 0, 9.5f, -9.5f, 1e-30f, NAN};
  const Tensor y = poisoned(DType::kFloat32, {7});
  tanh_forward(context_, put(x), y);
  const auto result = get<float>(y);
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[1], -1);
  EXPECT_EQ(result[2], 0);
  EXPECT_EQ(result[3], 1);
  EXPECT_EQ(result[4], -1);
  EXPECT_EQ(result[5], 1e-30f);
  EXPECT_TRUE(std::isnan(result[6]));
}

TEST_P(Elementwise, Convert) {
  check_convert<float, BFloat16>();
  check_convert<BFloat16, float>();
  check_convert<float, Float16>();
  check_convert<Float16, float>();
  check_convert<Float16, BFloat16>();
  check_convert<BFloat16, Float16>();
  try_float64([&] {
    check_convert<double, float>();
    check_convert<float, double>();
    check_convert<double, BFloat16>();
    check_convert<BFloat16, double>();
    check_convert<double, Float16>();
    check_convert<Float16, double>();
  });
}

TEST_P(Elementwise, ConvertManyAtOnce) {
  // Two pairs of dtypes alternate, at odd places. Some tensors are empty. One launch does not take
  // all.
  std::vector<Conversion> conversions;
  std::vector<std::vector<float>> values;
  std::vector<Tensor> wholes;
  for (std::int64_t i = 0; i < 75; ++i) {
    const std::int64_t n = i % 7 == 3 ? 0 : i == 20 ? 40001 : 1 + (i * 37) % 300, from = i % 3;
    values.push_back(random_values<float>(engine_, n + from));
    const DType dtype = i % 2 == 0 ? DType::kBFloat16 : DType::kFloat16;
    wholes.push_back(poisoned(dtype, {n + 5}));
    conversions.push_back(
        {put(values.back()).slice(0, from, n + from), wholes.back().slice(0, i % 5, i % 5 + n)});
  }
  convert(context_, conversions);
  for (std::size_t i = 0; i < conversions.size(); ++i) {
    const Tensor alone = poisoned(wholes[i].dtype(), wholes[i].shape());
    const std::int64_t at = static_cast<std::int64_t>(i % 5), n = conversions[i].source.size(0);
    if (n > 0) convert(context_, conversions[i].source, alone.slice(0, at, at + n));
    // Memory beside the targets stays as it was.
    if (wholes[i].dtype() == DType::kFloat16) {
      EXPECT_TRUE(same_bits(get<Float16>(wholes[i]), get<Float16>(alone))) << i;
      continue;
    }
    const auto found = get<BFloat16>(wholes[i]);
    EXPECT_TRUE(same_bits(found, get<BFloat16>(alone))) << i;
    for (std::int64_t j = 0; j < n; ++j) {
      const float value = values[i][i % 3 + static_cast<std::size_t>(j)];
      ASSERT_EQ(found[static_cast<std::size_t>(at + j)].bits, BFloat16(value).bits);
    }
  }
  convert(context_, {});
}

TEST_P(Elementwise, BiasAndColumnSums) {
  for (const std::int64_t columns : {1, 5, 64, 65, 200}) {
    for (const std::int64_t rows : {1, 2, 301}) {
      check_rows<float>(rows, columns);
      try_float64([&] { check_rows<double>(rows, columns); });
    }
  }
}

TEST_P(Elementwise, ColumnSumsOfNarrowTypesAreThoseOfTheirValues) {
  const auto check = [&](auto tag) {
    using X = typename decltype(tag)::type;
    std::vector<X> narrow;
    std::vector<float> wide;
    for (const float value : random_values<float>(engine_, 301 * 67)) {
      narrow.push_back(X(value));
      wide.push_back(static_cast<float>(narrow.back()));
    }
    const Tensor sums = put(std::vector<float>(67, 0.5f)),
                 expected = put(std::vector<float>(67, 0.5f));
    column_sums(context_, put(narrow, Shape{301, 67}), sums, true);
    column_sums(context_, put(wide, Shape{301, 67}), expected, true);
    EXPECT_TRUE(same_bits(get<float>(sums), get<float>(expected)));
  };
  check(base::TypeTag<base::BFloat16>{});
  check(base::TypeTag<base::Float16>{});
}

TEST_P(Elementwise, ColumnSumsOfNoRowsAreZero) {
  const Tensor sums = poisoned(DType::kFloat32, {4});
  column_sums(context_, poisoned(DType::kFloat32, {0, 4}), sums, false);
  const Tensor ones = put(std::vector<float>(12, 1.0f), Shape{3, 4});
  column_sums(context_, ones, sums, true, put(std::vector<float>{0.25f, 7.0f}));
  EXPECT_EQ(get<float>(sums), std::vector<float>(4, 0.75f));
  column_sums(context_, poisoned(DType::kFloat32, {0, 4}), sums, false);
  EXPECT_EQ(get<float>(sums), std::vector<float>(4, 0.0f));
}

TEST_P(Elementwise, ConcatenateAndSplitAreInverse) {
  const std::int64_t rows = 151, widths[] = {7, 0, 130};
  std::vector<Tensor> parts, apart;
  std::vector<std::vector<float>> values;
  for (const std::int64_t width : widths) {
    values.push_back(random_values<float>(engine_, rows * width));
    parts.push_back(put(values.back(), Shape{rows, width}));
    apart.push_back(poisoned(DType::kFloat32, {rows, width}));
  }
  const Tensor wide = poisoned(DType::kFloat32, {rows, 140});
  const Tensor whole = wide.slice(1, 2, 139);  // rows with gaps
  concatenate(context_, parts, whole);
  split(context_, whole, apart);
  const auto result = get<float>(wide);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = result.data() + r * 140;
    EXPECT_TRUE(std::isnan(row[0]) && std::isnan(row[1]) && std::isnan(row[139]));
    for (std::int64_t j = 0; j < 7; ++j) {
      ASSERT_EQ(row[2 + j], values[0][static_cast<std::size_t>(r * 7 + j)]);
    }
    for (std::int64_t j = 0; j < 130; ++j) {
      ASSERT_EQ(row[9 + j], values[2][static_cast<std::size_t>(r * 130 + j)]);
    }
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(get<float>(apart[i]), values[i]));
}

TEST_P(Elementwise, MovesManyPartsOfWholeUnits) {
  // Widths that are multiples of 16 bytes, and more parts than a kernel may take at once.
  const std::int64_t rows = 19;
  std::vector<Tensor> parts, apart;
  std::vector<std::vector<double>> values;
  for (std::int64_t i = 0; i < 11; ++i) {
    const std::int64_t width = 2 * (i % 4) * (i + 1);
    values.push_back(random_values<double>(engine_, rows * width));
    parts.push_back(put(values.back(), Shape{rows, width}));
    apart.push_back(poisoned(DType::kFloat64, {rows, width}));
  }
  std::int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.size(1);
  const Tensor whole = poisoned(DType::kFloat64, {rows, columns});
  concatenate(context_, parts, whole);
  split(context_, whole, apart);
  const auto result = get<double>(whole);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(same_bits(get<double>(apart[i]), values[i]));
    const std::int64_t width = parts[i].size(1);
    for (std::int64_t at = 0; at < rows * width; ++at) {
      const std::int64_t in_whole = at / width * columns + begin + at % width;
      ASSERT_EQ(result[static_cast<std::size_t>(in_whole)],
                values[i][static_cast<std::size_t>(at)]);
    }
    begin += width;
  }
}

TEST_P(Elementwise, TakesMemoryOfAnyAlignment) {
  const auto values = random_values<float>(engine_, 1003);
  const Tensor x = put(values).slice(0, 1, 1003), y = poisoned(DType::kBFloat16, {1004});
  convert(context_, x, y.slice(0, 1, 1003));
  scale(context_, x, 2);
  tanh_forward(context_, x.slice(0, 2, 1002), x.slice(0, 2, 1002));
  const auto result = get<float>(x);
  const auto converted = get<BFloat16>(y.slice(0, 1, 1003));
  EXPECT_EQ(result[1], 2 * values[2]);
  for (std::size_t i = 0; i < converted.size(); ++i) {
    ASSERT_EQ(converted[i].bits, BFloat16(values[i + 1]).bits);
    if (i >= 2) {
      ASSERT_NEAR(result[i], std::tanh(2 * values[i + 1]), 4 * 0x1p-24);
    }
  }
}

TEST_P(Elementwise, Dropout) {
  for (const bool with_ids : {false, true}) {
    check_dropout<float>(0.3, with_ids);
    try_float64([&] { check_dropout<double>(0.3, with_ids); });
    check_dropout<base::BFloat16>(0.3, with_ids);
    check_dropout<base::Float16>(0.3, with_ids);
  }
  check_dropout<float>(0, false);
  check_dropout<float>(0.3, true, 132);
  // Rows of whole pieces of 16 bits, two and three of which a thread of a GPU has at a time.
  for (const std::int64_t features : {128, 384, 640, 1536}) {
    check_dropout<base::BFloat16>(0.3, true, features);
    check_dropout<base::Float16>(0.3, false, features);
  }
}

TEST_P(Elementwise, DropoutKeepsTheRightShare) {
  const std::int64_t n = 100000;
  DropoutArgs args;
  args.x = put(std::vector<float>(n, 1.0f), Shape{10, 10, n / 100});
  args.y = args.x;
  args.rate = 0.2;
  dropout(context_, args);
  std::int64_t kept = 0;
  for (const float v : get<float>(args.y)) kept += v != 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(kept) / n, 0.8, 5 * std::sqrt(0.2 * 0.8 / n));  // 5 sigma
}

TEST_P(Elementwise, NothingDependsOnThreads) {
  const auto x = random_values<float>(engine_, 300 * 200);
  const auto sums_with = [&](int threads) {
    set_threads(threads);
    const Tensor sums = poisoned(DType::kFloat32, {200});
    column_sums(context_, put(x, Shape{300, 200}), sums, false);
    return get<float>(sums);
  };
  EXPECT_TRUE(same_bits(sums_with(1), sums_with(3)));
}

TEST_P(Elementwise, RefusesWhatDoesNotFit) {
  const Tensor a = poisoned(DType::kFloat32, {2, 3}), b = poisoned(DType::kFloat64, {2, 3});
  const Tensor c = poisoned(DType::kFloat32, {3}), d = poisoned(DType::kInt32, {3});
  EXPECT_THROW(fill(context_, poisoned(DType::kUInt8, {3}), 1), Error);
  EXPECT_THROW(scale(context_, d, 2), Error);
  EXPECT_THROW(scale(context_, a.slice(1, 0, 2), 2), Error);
  EXPECT_THROW(accumulate(context_, 1, a, b), Error);
  EXPECT_THROW(accumulate(context_, 1, a, c), Error);
  EXPECT_THROW(convert(context_, c, d), Error);
  EXPECT_THROW(tanh_forward(context_, a, c), Error);
  EXPECT_THROW(tanh_backward(context_, a, a, b), Error);
  EXPECT_THROW(add_bias(context_, c, poisoned(DType::kFloat32, {3, 2})), Error);
  EXPECT_THROW(column_sums(context_, a, b, false), Error);
  const Tensor parts[] = {a, a};
  EXPECT_THROW(concatenate(context_, parts, poisoned(DType::kFloat32, {2, 5})), Error);
  EXPECT_THROW(split(context_, poisoned(DType::kFloat32, {3, 6}), parts), Error);
  DropoutArgs args;
  args.x = args.y = poisoned(DType::kFloat32, {2, 3, 4});
  args.rate = 1;
  EXPECT_THROW(dropout(context_, args), Error);
  args.rate = 0.5;
  args.row_ids = d.slice(0, 0, 2);
  EXPECT_THROW(dropout(context_, args), Error);
}

TEST_P(Elementwise, ConvertsTheEdgesOfFloat16) {
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> x{65519.0f, 65520.0f,   -infinite,       NAN,
                             0x1p-25f, 0x1.8p-25f, 1.0f + 0x1p-11f, -0.0f};
  const Tensor y = poisoned(DType::kFloat16, {8});
  convert(context_, put(x), y);
  const auto result = get<Float16>(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i != 3) {
      EXPECT_EQ(result[i].bits, Float16(x[i]).bits) << x[i];
    }
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(result[3])));
}

INSTANTIATE_TEST_SUITE_P(Devices, Elementwise, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::elementwise
