#include "kernels/matmul/quantized.h"

#include <cmath>

#include "unit/support/on_device.h"

namespace sluice::kernels::matmul {
namespace {

using base::DType;
using base::Shape;
using testing::random_values;

class QuantizedMatmul : public testing::OnDevice {
 protected:
  Tensor pack(const Tensor& weights) {
    const auto bytes = static_cast<std::int64_t>(quantized_bytes(weights.size(0), weights.size(1)));
    const Tensor packed = poisoned(DType::kUInt8, {bytes});
    quantize_weights(context_, weights, packed);
    return packed;
  }
};

INSTANTIATE_TEST_SUITE_P(, QuantizedMatmul, testing::host_devices(), testing::device_name);

// Each side is rounded by up to half a step, 1/254 of the largest of its row: of values uniform in
// [-1, 1) by 1/254/sqrt(3) in the mean square, so a sum of k products errs by about
// sqrt(k) * sqrt(2/3) / 440; five times that.
TEST_P(QuantizedMatmul, IsCloseToTheProduct) {
  std::mt19937_64 engine(11);
  for (int trial = 0; trial < 20; ++trial) {
    const auto size = [&](std::uint64_t most) {
      return static_cast<std::int64_t>(1 + engine() % most);
    };
    const std::int64_t m = size(40), n = size(trial % 4 == 0 ? 700 : 50), k = size(300), gap = 3;
    const auto a = random_values<float>(engine, m * (k + gap));
    const auto weights = random_values<float>(engine, n * k);
    const auto bias = random_values<float>(engine, n);
    const Tensor c = poisoned(DType::kFloat32, {m, n});
    const bool with_bias = trial % 2 == 0;
    quantized_matmul(context_,
                     {put(a, Shape{m, k + gap}).slice(1, 0, k), pack(put(weights, Shape{n, k})), c,
                      with_bias ? put(bias) : Tensor()});
    const auto got = get<float>(c);
    const double tolerance = 5 * std::sqrt(static_cast<double>(k) * 2 / 3) / 440;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = with_bias ? bias[static_cast<std::size_t>(j)] : 0;
        for (std::int64_t p = 0; p < k; ++p) {
          sum += double{a[static_cast<std::size_t>(i * (k + gap) + p)]} *
                 weights[static_cast<std::size_t>(j * k + p)];
        }
        ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, tolerance);
      }
    }
    release_memory();
  }
}

TEST_P(QuantizedMatmul, HasTheSameBitsForAnyNumberOfThreads) {
  std::mt19937_64 engine(5);
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{3, 2100}, {900, 20}}) {
    const Tensor a = put(random_values<float>(engine, m * 300), Shape{m, 300});
    const Tensor weights = put(random_values<float>(engine, n * 300), Shape{n, 300});
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 5}) {
      set_threads(threads);
      const Tensor c = poisoned(DType::kFloat32, {m, n});
      quantized_matmul(context_, {a, pack(weights), c, {}});
      const auto got = get<float>(c);
      if (first.empty()) first = got;
      EXPECT_TRUE(testing::same_bits(got, first)) << threads;
    }
  }
}

TEST_P(QuantizedMatmul, RefusesWhatDoesNotFit) {
  const Tensor a = put(std::vector<float>(12), Shape{3, 4});
  const Tensor packed = pack(put(std::vector<float>(20), Shape{5, 4}));
  const Tensor c = poisoned(DType::kFloat32, {3, 5});
  const auto refused = [&](const QuantizedArgs& args) {
    EXPECT_THROW(quantized_matmul(context_, args), Error);
  };
  refused({a, packed, poisoned(DType::kFloat32, {3, 40}), {}});
  refused({a, packed, poisoned(DType::kFloat32, {2, 5}), {}});
  refused({a, packed, poisoned(DType::kFloat64, {3, 5}), {}});
  refused({a, packed, c, put(std::vector<float>(4))});
  EXPECT_THROW(quantized_bytes(3, 32769), Error);
}

}  // namespace
}  // namespace sluice::kernels::matmul
