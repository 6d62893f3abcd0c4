#include "kernels/matmul/halved.h"

#include <array>
#include <cmath>

#include "unit/support/on_device.h"

namespace sluice::kernels::matmul {
namespace {

using base::DType;
using base::Float16;
using base::Shape;
using runtime::Tensor;
using testing::random_values;

class Halved : public testing::OnDevice {
 protected:
  struct Matrix {
    std::vector<float> values;
    Tensor halved, scale;
  };

  Matrix halve_random(std::int64_t rows, std::int64_t columns, double size) {
    Matrix made{random_values<float>(engine_, rows * columns, size),
                poisoned(DType::kFloat16, {rows, columns}),
                poisoned(DType::kFloat32, {kScaleNumbers})};
    halve(context_, {put(made.values, Shape{rows, columns}), made.halved, made.scale});
    return made;
  }
  std::vector<float> numbers_of(const Tensor& tensor) { return context_.download<float>(tensor); }

  std::mt19937_64 engine_{17};
};

/// What a GPU alone does with them.
class HalvedOnGpu : public Halved {
 protected:
  void SetUp() override {
    if (device_->runs_host_kernels()) GTEST_SKIP() << "only a GPU multiplies scaled halves";
  }
};

TEST_P(HalvedOnGpu, NumbersKeepElevenBitsOfAnyRange) {
  for (const double size : {1e-30, 3e-7, 1.0, 1e9, 3e38}) {
    for (const std::int64_t columns : {1, 7, 8, 1027, 66000}) {
      const Matrix made = halve_random(3, columns, size);
      const auto halves = context_.download<Float16>(made.halved);
      const double scale = numbers_of(made.scale)[0];
      int exponent = 0;
      EXPECT_EQ(std::frexp(scale, &exponent), 0.5);
      double largest = 0;
      for (const float value : made.values) largest = std::fmax(largest, std::abs(value));
      for (std::size_t i = 0; i < halves.size(); ++i) {
        const double error = std::abs(static_cast<double>(static_cast<float>(halves[i])) * scale -
                                      static_cast<double>(made.values[i]));
        ASSERT_LE(error, std::fmax(std::abs(made.values[i]) * 0x1p-11, largest * 0x1p-39))
            << size << " " << columns << " at " << i;
      }
    }
  }
}

TEST_P(HalvedOnGpu, ZerosAndWhatIsNotFinite) {
  const float nan = std::nanf(""), infinity = HUGE_VALF;
  for (const float odd : {0.0f, nan, infinity, -infinity}) {
    const Tensor halved = poisoned(DType::kFloat16, {4, 8});
    const Tensor scale = poisoned(DType::kFloat32, {kScaleNumbers});
    std::vector<float> values(32);
    values[13] = odd;
    halve(context_, {put(values, Shape{4, 8}), halved, scale});
    const auto halves = context_.download<Float16>(halved);
    EXPECT_EQ(std::isfinite(static_cast<float>(halves[13])), std::isfinite(odd));
    EXPECT_EQ(static_cast<float>(halves[0]), 0);
    EXPECT_TRUE(std::isfinite(numbers_of(scale)[0]));
  }
}

TEST_P(HalvedOnGpu, AlphasAreProducts) {
  const Tensor left = put(std::vector<float>{0.5f, 9}), right = put(std::vector<float>{8, 9});
  const Tensor all = poisoned(DType::kFloat32, {2 * kAlphaNumbers});
  const Tensor first = all.slice(0, 0, kAlphaNumbers);
  const Tensor second = all.slice(0, kAlphaNumbers, 2 * kAlphaNumbers);
  make_alphas(context_,
              std::array{AlphaArgs{.left = left, .right = right, .factor = {}, .alpha = first},
                         AlphaArgs{.left = {},
                                   .right = right,
                                   .factor = put(std::vector<double>{0.25}),
                                   .times = 3,
                                   .alpha = second}});
  EXPECT_EQ(numbers_of(all), (std::vector<float>{4, 0, 1, 6, 0, 1}));
}

// All ways a layer multiplies, against float64, of factors of very different sizes.
TEST_P(HalvedOnGpu, ProductsEqualTheDefinition) {
  constexpr std::int64_t kM = 37, kN = 56, kK = 200;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Matrix a = transpose_a ? halve_random(kK, 40, 1e-9) : halve_random(kM, kK, 1e-9);
      const Matrix b = transpose_b ? halve_random(kN, kK, 300) : halve_random(kK, kN, 300);
      const std::int64_t m = transpose_a ? 40 : kM;
      const Tensor alpha = poisoned(DType::kFloat32, {kAlphaNumbers});
      const AlphaArgs scales{.left = a.scale, .right = b.scale, .factor = {}, .alpha = alpha};
      make_alphas(context_, {&scales, 1});
      const auto before = random_values<float>(engine_, m * kN, 1e-6);
      const auto bias = random_values<float>(engine_, kN, 1e-6);
      const bool accumulate = transpose_a;
      const Tensor c = accumulate ? put(before, Shape{m, kN}) : poisoned(DType::kFloat32, {m, kN});
      HalvedMatmulArgs args{.a = a.halved,
                            .b = b.halved,
                            .c = c,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .alpha = alpha,
                            .accumulate = accumulate,
                            .bias = {}};
      if (!accumulate) args.bias = put(bias);
      halved_matmul(context_, args);
      const auto result = numbers_of(c);
      for (std::int64_t i = 0; i < m * kN; ++i) {
        const std::int64_t row = i / kN, column = i % kN;
        double sum = accumulate ? before[static_cast<std::size_t>(i)]
                                : bias[static_cast<std::size_t>(column)];
        for (std::int64_t k = 0; k < kK; ++k) {
          const auto at_a = static_cast<std::size_t>(transpose_a ? k * m + row : row * kK + k);
          const auto at_b =
              static_cast<std::size_t>(transpose_b ? column * kK + k : k * kN + column);
          sum += static_cast<double>(a.values[at_a]) * static_cast<double>(b.values[at_b]);
        }
        // Each of 200 products of up to 3e-7 is off by 2^-11 twice at most.
        ASSERT_NEAR(result[static_cast<std::size_t>(i)], sum, kK * 3e-7 * 0x1p-10) << i;
      }
    }
  }
}

TEST_P(Halved, AreRefusedByTheHost) {
  if (!device_->runs_host_kernels()) GTEST_SKIP() << "this is a test of the host";
  EXPECT_THROW(halve_random(2, 8, 1), Error);
}

TEST_P(Halved, PaysForLargeProductsInTf32Alone) {
  EXPECT_FALSE(halves(context_, 4096, 32000, 1024));
  context_.set_precision(runtime::Precision::parse("tf32"));
  EXPECT_EQ(halves(context_, 4096, 32000, 1024), !device_->runs_host_kernels());
  EXPECT_FALSE(halves(context_, 4096, 32004, 1024));  // rows of 8 bytes
  EXPECT_FALSE(halves(context_, 64, 1000, 512));
}

INSTANTIATE_TEST_SUITE_P(Devices, Halved, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, HalvedOnGpu, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::matmul
