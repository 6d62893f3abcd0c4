#include "kernels/pooling/pooling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "unit/support/on_device.h"

namespace sluice::kernels::pooling {
namespace {

using base::BFloat16;
using base::dtype_of;
using base::Float16;
using base::Shape;
using testing::random_values;
using testing::same_bits;
using testing::widened;

constexpr Kind kKinds[] = {Kind::kLast, Kind::kMean, Kind::kMax, Kind::kAttention};

struct Case {
  Kind kind;
  std::int64_t time, rows, features, forward_features;
  std::vector<double> x, dy, query;
  std::vector<std::int32_t> lengths;

  double at(std::int64_t t, std::int64_t r, std::int64_t f) const {
    return x[static_cast<std::size_t>((t * rows + r) * features + f)];
  }
  std::int64_t length(std::int64_t r) const { return lengths[static_cast<std::size_t>(r)]; }
};

/// The equations of docs/equations.md for one feature of one row, in float64.
double pooled(const Case& c, std::int64_t r, std::int64_t f) {
  const std::int64_t length = c.length(r);
  if (length == 0) return 0;
  switch (c.kind) {
    case Kind::kLast:
      return c.at(f < c.forward_features ? length - 1 : 0, r, f);
    case Kind::kMean: {
      double sum = 0;
      for (std::int64_t t = 0; t < length; ++t) sum += c.at(t, r, f);
      return sum / static_cast<double>(length);
    }
    case Kind::kMax: {
      double largest = c.at(0, r, f);
      for (std::int64_t t = 1; t < length; ++t) largest = std::fmax(largest, c.at(t, r, f));
      return largest;
    }
    default: {
      double numerator = 0, denominator = 0;
      for (std::int64_t t = 0; t < length; ++t) {
        double score = 0;
        for (std::int64_t g = 0; g < c.features; ++g) {
          score += c.query[static_cast<std::size_t>(g)] * c.at(t, r, g);
        }
        numerator += std::exp(score) * c.at(t, r, f);
        denominator += std::exp(score);
      }
      return numerator / denominator;
    }
  }
}

/// dy . y of all rows: what the gradient is the derivative of.
double objective(const Case& c) {
  double sum = 0;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t f = 0; f < c.features; ++f) {
      sum += c.dy[static_cast<std::size_t>(r * c.features + f)] * pooled(c, r, f);
    }
  }
  return sum;
}

/// Central differences of the reference. Moved values stay apart by more than the step, so that the
/// largest stays the largest.
double derivative(Case& c, double& value) {
  constexpr double kStep = 1e-5;
  const double before = value;
  value = before + kStep;
  const double above = objective(c);
  value = before - kStep;
  const double below = objective(c);
  value = before;
  return (above - below) / (2 * kStep);
}

/// The gradient of element i of x. Where 16 bits make several steps the largest, there is no
/// derivative: the first has it all.
double gradient(Case& c, std::size_t i) {
  const auto n = static_cast<std::int64_t>(i);
  const std::int64_t f = n % c.features, r = n / c.features % c.rows, t = n / c.features / c.rows;
  std::vector<std::int64_t> largest;
  for (std::int64_t s = 0; s < c.length(r); ++s) {
    if (c.at(s, r, f) == pooled(c, r, f)) largest.push_back(s);
  }
  if (c.kind != Kind::kMax || largest.size() == 1) return derivative(c, c.x[i]);
  return t == largest.front() ? c.dy[static_cast<std::size_t>(r * c.features + f)] : 0;
}

class Pooling : public testing::OnDevice {
 protected:
  template <typename T>
  Case make(Kind kind, std::int64_t time, std::int64_t rows, std::int64_t features,
            std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    const auto below = [&](std::int64_t count) {
      return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(count));
    };
    Case c{kind, time, rows, features, below(features + 1), {}, {}, {}, {}};
    c.x = widened(random_values<T>(engine, time * rows * features));
    c.dy = widened(random_values<T>(engine, rows * features));
    c.query = widened(random_values<float>(engine, features));
    for (std::int64_t r = 0; r < rows; ++r) {
      c.lengths.push_back(static_cast<std::int32_t>(below(time + 1)));
    }
    c.lengths[static_cast<std::size_t>(below(rows))] = 0;
    c.lengths[0] = static_cast<std::int32_t>(time);
    return c;
  }

  template <typename T>
  static std::vector<T> narrowed(const std::vector<double>& values) {
    std::vector<T> narrow;
    for (const double value : values) {
      if constexpr (std::is_class_v<T>) {
        narrow.push_back(T(static_cast<float>(value)));
      } else {
        narrow.push_back(static_cast<T>(value));
      }
    }
    return narrow;
  }

  /// x with NaN past the rows' ends, which must not show.
  template <typename T>
  Tensor put_x(const Case& c) {
    std::vector<double> x = c.x;
    for (std::int64_t n = 0; n < c.time * c.rows; ++n) {
      if (n / c.rows < c.length(n % c.rows)) continue;
      std::fill_n(x.begin() + n * c.features, c.features, std::numeric_limits<double>::quiet_NaN());
    }
    return put(narrowed<T>(x), Shape{c.time, c.rows, c.features});
  }

  template <typename T>
  ForwardArgs forward_args(const Case& c) {
    const DType master = base::policy_of(dtype_of<T>()).master;
    ForwardArgs args;
    args.kind = c.kind;
    args.forward_features = c.forward_features;
    args.x = put_x<T>(c);
    args.lengths = put(c.lengths);
    if (c.kind == Kind::kAttention) {
      args.query = master == DType::kFloat64 ? put(c.query) : put(narrowed<float>(c.query));
      args.weights = poisoned(master, {c.time, c.rows});
    }
    if (c.kind == Kind::kMax) args.positions = poisoned(DType::kInt32, {c.rows, c.features});
    args.y = poisoned(dtype_of<T>(), {c.rows, c.features});
    return args;
  }

  template <typename T>
  BackwardArgs backward_args(const Case& c, const ForwardArgs& forward) {
    BackwardArgs args;
    args.forward = forward;
    args.dy = put(narrowed<T>(c.dy), Shape{c.rows, c.features});
    args.dx = poisoned(dtype_of<T>(), forward.x.shape());
    if (c.kind == Kind::kAttention) {
      args.d_query = forward.query.dtype() == DType::kFloat64
                         ? put(std::vector<double>(c.query.size(), 1.0))
                         : put(std::vector<float>(c.query.size(), 1.0F));
    }
    const auto bytes = static_cast<std::int64_t>(
        backward_workspace_bytes(c.kind, forward.x.shape(), forward.x.dtype()));
    if (bytes > 0) args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  /// A rounding of what is stored, and what `time` roundings of sums of numbers below 1 leave,
  /// which scores of `features` terms make larger.
  template <typename T>
  static double tolerance(const Case& c) {
    if (std::is_same_v<T, double>) return 1e-12;
    const double stored = std::is_same_v<T, BFloat16>  ? 0x1p-8
                          : std::is_same_v<T, Float16> ? 0x1p-11
                                                       : 0;
    return stored + 0x1p-23 * static_cast<double>(c.time + c.features);
  }

  template <typename T>
  void check(Case c) {
    const ForwardArgs args = forward_args<T>(c);
    forward(context_, args);
    const auto y = widened(get<T>(args.y));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto n = static_cast<std::int64_t>(i);
      ASSERT_NEAR(y[i], pooled(c, n / c.features, n % c.features), tolerance<T>(c))
          << name_of(c.kind) << " at " << i;
    }
    check_gradient<T>(c, args);
    release_memory();
  }

  template <typename T>
  void check_gradient(Case& c, const ForwardArgs& forward) {
    const BackwardArgs args = backward_args<T>(c, forward);
    backward(context_, args);
    const auto dx = widened(get<T>(args.dx));
    const std::size_t stride = 1 + dx.size() / 97;
    for (std::size_t i = 0; i < dx.size(); i += stride) {
      const auto n = static_cast<std::int64_t>(i) / c.features;
      const bool counts = n / c.rows < c.length(n % c.rows);
      if (!counts) {
        ASSERT_EQ(dx[i], 0) << name_of(c.kind) << " at " << i;
      } else {
        // Differences are good to 1e-9; attention scales a gradient by up to `features` numbers.
        ASSERT_NEAR(dx[i], gradient(c, i), tolerance<T>(c) * static_cast<double>(c.features) + 1e-8)
            << name_of(c.kind) << " at " << i;
      }
    }
    if (c.kind != Kind::kAttention) return;
    const auto d_query =
        std::is_same_v<T, double> ? get<double>(args.d_query) : widened(get<float>(args.d_query));
    const double most = tolerance<float>(c) * static_cast<double>(c.features * c.rows) + 1e-8;
    for (std::size_t f = 0; f < d_query.size(); f += 1 + d_query.size() / 13) {
      ASSERT_NEAR(d_query[f], 1 + derivative(c, c.query[f]), most) << "query " << f;
    }
  }

  template <typename T>
  void check_all() {
    const std::int64_t shapes[][3] = {
        {1, 1, 1}, {7, 5, 3}, {33, 3, 17}, {300, 4, 40}, {5, 70, 129}};
    std::uint64_t seed = 1;
    for (const Kind kind : kKinds) {
      for (const auto& [time, rows, features] : shapes) {
        check<T>(make<T>(kind, time, rows, features, ++seed));
      }
    }
  }
};

TEST_P(Pooling, Float32EqualsTheDefinition) { check_all<float>(); }
TEST_P(Pooling, BFloat16EqualsTheDefinition) { check_all<BFloat16>(); }
TEST_P(Pooling, Float16EqualsTheDefinition) { check_all<Float16>(); }
TEST_P(Pooling, Float64EqualsTheDefinition) {
  if (!try_float64([&] { check_all<double>(); })) {
    GTEST_SKIP() << "this device takes no float64";
  }
}

TEST_P(Pooling, WithoutLengthsAllStepsCount) {
  for (const Kind kind : kKinds) {
    Case c = make<float>(kind, 9, 4, 6, 3);
    c.lengths.assign(4, 9);
    const ForwardArgs with = forward_args<float>(c);
    ForwardArgs without = forward_args<float>(c);
    without.lengths = Tensor();
    forward(context_, with);
    forward(context_, without);
    EXPECT_TRUE(same_bits(get<float>(with.y), get<float>(without.y)));
  }
}

TEST_P(Pooling, AttentionWeighsToOne) {
  const Case c = make<float>(Kind::kAttention, 50, 6, 21, 5);
  const ForwardArgs args = forward_args<float>(c);
  forward(context_, args);
  const auto weights = get<float>(args.weights);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    double sum = 0;
    for (std::int64_t t = 0; t < c.time; ++t) {
      const float weight = weights[static_cast<std::size_t>(t * c.rows + r)];
      if (t >= c.length(r)) {
        EXPECT_EQ(weight, 0);
      }
      sum += weight;
    }
    EXPECT_NEAR(sum, c.length(r) > 0 ? 1 : 0, 1e-5);
  }
}

TEST_P(Pooling, HugeScoresDoNotOverflow) {
  Case c = make<float>(Kind::kAttention, 4, 2, 3, 5);
  c.lengths = {4, 4};
  for (double& q : c.query) q *= 3e4;
  const ForwardArgs args = forward_args<float>(c);
  forward(context_, args);
  for (const float y : get<float>(args.y)) EXPECT_LE(std::abs(y), 1);
}

TEST_P(Pooling, TheLargestIsTheFirstOfEqualOnesAndNanIfThereIsOne) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  ForwardArgs args;
  args.kind = Kind::kMax;
  args.x = put(std::vector<float>{1, 1, 1, 3, kNan, 3, 3, 9, kNan}, Shape{3, 1, 3});
  args.positions = poisoned(DType::kInt32, {1, 3});
  args.y = poisoned(DType::kFloat32, {1, 3});
  forward(context_, args);
  EXPECT_EQ(get<std::int32_t>(args.positions), (std::vector<std::int32_t>{1, 1, 2}));
  const auto y = get<float>(args.y);
  EXPECT_EQ(y[0], 3);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST_P(Pooling, RowsDoNotDependOnEachOtherOrOnThreads) {
  for (const Kind kind : kKinds) {
    const Case c = make<float>(kind, 40, 9, 70, 8);
    const ForwardArgs all = forward_args<float>(c);
    forward(context_, all);
    const BackwardArgs back = backward_args<float>(c, all);
    backward(context_, back);
    const auto y = get<float>(all.y), dx = get<float>(back.dx);
    set_threads(3);
    forward(context_, all);
    backward(context_, back);
    EXPECT_TRUE(same_bits(y, get<float>(all.y))) << name_of(kind);
    EXPECT_TRUE(same_bits(dx, get<float>(back.dx))) << name_of(kind);
    Case one = c;
    one.rows = 1;
    one.lengths.resize(1);
    one.x.clear();
    for (std::int64_t t = 0; t < c.time; ++t) {
      for (std::int64_t f = 0; f < c.features; ++f) one.x.push_back(c.at(t, 0, f));
    }
    const ForwardArgs single = forward_args<float>(one);
    forward(context_, single);
    EXPECT_TRUE(same_bits(get<float>(single.y), std::vector<float>(y.begin(), y.begin() + 70)));
  }
}

TEST_P(Pooling, RefusesWhatDoesNotFit) {
  const Case c = make<float>(Kind::kAttention, 3, 2, 4, 1);
  const ForwardArgs good = forward_args<float>(c);
  ForwardArgs bad = good;
  bad.y = poisoned(DType::kFloat32, {2, 5});
  EXPECT_THROW(forward(context_, bad), Error);
  bad = good;
  bad.query = poisoned(DType::kFloat32, {5});
  EXPECT_THROW(forward(context_, bad), Error);
  bad = good;
  bad.lengths = put(std::vector<std::int32_t>{1});
  EXPECT_THROW(forward(context_, bad), Error);
  bad = good;
  bad.kind = Kind::kMax;  // without positions
  EXPECT_THROW(forward(context_, bad), Error);
  bad.kind = Kind::kLast;
  bad.forward_features = 5;
  EXPECT_THROW(forward(context_, bad), Error);
  BackwardArgs no_memory = backward_args<float>(c, good);
  no_memory.workspace = nullptr;
  EXPECT_THROW(backward(context_, no_memory), Error);
  EXPECT_THROW(parse_kind("median"), Error);
  for (const Kind kind : kKinds) EXPECT_EQ(parse_kind(name_of(kind)), kind);
}

INSTANTIATE_TEST_SUITE_P(Devices, Pooling, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::pooling
