#include <cmath>
#include <limits>

#include "kernels/loss/loss.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::loss {
namespace {

using base::DType;
using base::Shape;
using testing::random_values;
using testing::same_bits;
using testing::widened;

struct Case {
  std::int64_t time, rows, values, first_time;
  std::vector<double> predictions;
  std::vector<float> targets;
  std::vector<std::int32_t> lengths;

  std::int64_t frames() const { return time * rows; }
  bool counts(std::int64_t n) const {
    return first_time + n / rows < lengths[static_cast<std::size_t>(n % rows)];
  }
};

constexpr double kScale = 0.37;

/// The definition: sum over the frames that count of the mean over values.
double expected_loss(const Case& c) {
  double loss = 0;
  for (std::int64_t n = 0; n < c.frames(); ++n) {
    if (!c.counts(n)) continue;
    for (std::int64_t j = 0; j < c.values; ++j) {
      const auto i = static_cast<std::size_t>(n * c.values + j);
      loss += std::pow(c.predictions[i] - static_cast<double>(c.targets[i]), 2) /
              static_cast<double>(c.values);
    }
  }
  return loss;
}

class SquaredError : public testing::OnDevice {
 protected:
  template <typename T>
  Case make(std::int64_t time, std::int64_t rows, std::int64_t values, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    Case c{time, rows, values, static_cast<std::int64_t>(engine() % 3), {}, {}, {}};
    c.predictions = widened(random_values<T>(engine, time * rows * values, 3));
    c.targets = random_values<float>(engine, time * rows * values, 3);
    for (std::int64_t r = 0; r < rows; ++r) {
      c.lengths.push_back(
          static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(time + 3)));
    }
    return c;
  }

  template <typename T>
  SquaredErrorArgs arguments(const Case& c) {
    const Shape shape{c.frames(), c.values};
    // What frames hold that don't count must not show.
    std::vector<T> predictions(c.predictions.begin(), c.predictions.end());
    std::vector<float> targets = c.targets;
    for (std::int64_t n = 0; n < c.frames(); ++n) {
      if (c.counts(n)) continue;
      for (std::int64_t i = n * c.values; i < (n + 1) * c.values; ++i) {
        predictions[static_cast<std::size_t>(i)] = std::numeric_limits<T>::quiet_NaN();
        targets[static_cast<std::size_t>(i)] = std::numeric_limits<float>::infinity();
      }
    }
    SquaredErrorArgs args;
    args.first_time = c.first_time;
    args.time = c.time;
    args.rows = c.rows;
    args.predictions = put(predictions, shape);
    args.targets = put(targets, shape);
    args.lengths = put(c.lengths);
    constexpr double kLossScale = 8;  // the gradient has both factors
    args.scale = put_number(kScale / kLossScale);
    args.loss_scale = put_number(kLossScale);
    args.d_predictions = poisoned(base::dtype_of<T>(), shape);
    args.sums = poisoned(DType::kFloat64, {kSums});
    const auto bytes = static_cast<std::int64_t>(squared_error_workspace_bytes(c.frames()));
    args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  template <typename T>
  void check_results(const Case& c, const SquaredErrorArgs& args) {
    const auto sums = get<double>(args.sums);
    double frames = 0;
    for (std::int64_t n = 0; n < c.frames(); ++n) frames += c.counts(n) ? 1 : 0;
    const double expected = expected_loss(c);
    // Everything is in float64 but for the numbers themselves.
    EXPECT_NEAR(sums[kLoss], expected, 1e-12 * (1 + expected));
    EXPECT_EQ(sums[kNll], sums[kLoss]);
    EXPECT_EQ(sums[kTokens], frames);
    EXPECT_EQ(std::isnan(sums[kCorrect]), frames > 0);
    if (!args.d_predictions) return;
    const auto gradient = get<T>(args.d_predictions);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double difference = c.predictions[i] - static_cast<double>(c.targets[i]);
      const double wanted = c.counts(static_cast<std::int64_t>(i) / c.values)
                                ? 2 * kScale * difference / static_cast<double>(c.values)
                                : 0;
      ASSERT_NEAR(gradient[i], wanted, 0x1p-23 * std::abs(wanted)) << "at " << i;
    }
  }

  template <typename T>
  void check_all() {
    std::uint64_t seed = 1;
    for (const std::int64_t values : {1, 2, 31, 33, 448}) {
      for (const std::int64_t rows : {1, 5}) {
        const Case c = make<T>(6, rows, values, ++seed);
        SquaredErrorArgs args = arguments<T>(c);
        squared_error(context_, args);
        check_results<T>(c, args);
        const auto once = get<double>(args.sums);
        args.accumulate_sums = true;
        args.d_predictions = args.predictions;  // over them
        squared_error(context_, args);
        EXPECT_EQ(get<double>(args.sums)[kLoss], 2 * once[kLoss]);
        EXPECT_EQ(get<double>(args.sums)[kTokens], 2 * once[kTokens]);
        args.sums = put(once);
        check_results<T>(c, args);
      }
    }
  }
};

TEST_P(SquaredError, Float32EqualsTheDefinition) { check_all<float>(); }
TEST_P(SquaredError, Float64EqualsTheDefinition) {
  if (!try_float64([&] { check_all<double>(); })) {
    GTEST_SKIP() << "this device takes no float64";
  }
}

// Sums of several parts.
TEST_P(SquaredError, ManyFramesEqualTheDefinition) {
  const Case c = make<float>(90, 101, 3, 8);
  const SquaredErrorArgs args = arguments<float>(c);
  squared_error(context_, args);
  check_results<float>(c, args);
}

TEST_P(SquaredError, GradientEqualsFiniteDifferences) {
  const bool ran = try_float64([&] {
    Case c = make<double>(3, 4, 5, 99);
    const SquaredErrorArgs args = arguments<double>(c);
    squared_error(context_, args);
    const auto gradient = get<double>(args.d_predictions);
    const auto loss_at = [&](std::size_t i, double value) {
      const double before = std::exchange(c.predictions[i], value);
      const SquaredErrorArgs moved = arguments<double>(c);
      squared_error(context_, moved);
      c.predictions[i] = before;
      return get<double>(moved.sums)[kLoss];
    };
    for (std::size_t i = 0; i < gradient.size(); i += 3) {
      const double x = c.predictions[i], h = 1e-4;
      // Exact for a square, but for the rounding of some 1e-15 / h.
      EXPECT_NEAR(gradient[i], kScale * (loss_at(i, x + h) - loss_at(i, x - h)) / (2 * h), 1e-9);
    }
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

TEST_P(SquaredError, NoFramesThatCountGiveNoGradientWhateverTheScale) {
  Case c = make<float>(2, 3, 4, 1);
  c.lengths.assign(3, 0);
  SquaredErrorArgs args = arguments<float>(c);
  args.scale = put_number(std::numeric_limits<double>::infinity());
  squared_error(context_, args);
  EXPECT_EQ(get<double>(args.sums), std::vector<double>(kSums, 0.0));
  for (const float g : get<float>(args.d_predictions)) EXPECT_EQ(g, 0);
}

TEST_P(SquaredError, DoesNotDependOnThreads) {
  const Case c = make<float>(40, 30, 33, 5);
  const SquaredErrorArgs args = arguments<float>(c);
  squared_error(context_, args);
  const auto sums = get<double>(args.sums);
  set_threads(3);
  squared_error(context_, args);
  EXPECT_TRUE(same_bits(sums, get<double>(args.sums)));
}

TEST_P(SquaredError, RefusesBadArguments) {
  const Case c = make<float>(2, 3, 10, 4);
  const SquaredErrorArgs good = arguments<float>(c);
  SquaredErrorArgs bad = good;
  bad.rows = 4;
  EXPECT_THROW(squared_error(context_, bad), Error);
  bad = good;
  bad.targets = poisoned(DType::kFloat32, {6, 9});
  EXPECT_THROW(squared_error(context_, bad), Error);
  bad = good;
  bad.sums = poisoned(DType::kFloat64, {1});
  EXPECT_THROW(squared_error(context_, bad), Error);
  bad = good;
  bad.workspace = nullptr;
  EXPECT_THROW(squared_error(context_, bad), Error);
  bad = good;
  bad.predictions = poisoned(DType::kBFloat16, {6, 10});
  EXPECT_THROW(squared_error(context_, bad), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, SquaredError, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
