#include "kernels/loss/projected.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unit/kernels_loss/cross_entropy_case.h"
#include "unit/support/temporary_folder.h"

namespace sluice::kernels::loss {
namespace {

using testing::random_values;
using testing::widened;

struct Case {
  std::int64_t time, rows, in, classes;
  double smoothing, dropout;
  bool has_lengths;
};

/// What the layer computes, by its definition in float64: x and the weight are what is stored, x as
/// dropout leaves it.
struct Expected {
  double sums[kSums] = {};
  std::vector<double> dx, d_weight, d_bias;
  /// Of each number, the sum of the terms' magnitudes: what roundings are relative to.
  std::vector<double> dx_terms, weight_terms, bias_terms;
};

class ProjectedLoss : public testing::OnDevice {
 protected:
  struct Problem {
    Case shape;
    std::vector<double> x, dropped, weight, bias;  ///< as stored
    std::vector<double> kept;                      ///< 0 or what dropout multiplies by
    std::vector<std::int32_t> targets, lengths, ids;
    double scale;

    std::int64_t tokens() const { return shape.time * shape.rows; }
    bool counts(std::int64_t n) const {
      return lengths.empty() || n / shape.rows < lengths[static_cast<std::size_t>(n % shape.rows)];
    }
  };
  struct Outcome {
    std::vector<double> sums, dx, d_weight, d_bias;
  };
  static constexpr double kBefore = 0.25;  ///< gradients are added to it
  static constexpr runtime::DropoutKey kKey{91, 7, 3};

  template <typename T>
  static std::vector<T> narrowed(const std::vector<double>& values) {
    std::vector<T> narrow;
    for (const double value : values) narrow.push_back(T(static_cast<float>(value)));
    return narrow;
  }
  /// Uniform on [-most, most), as T stores them.
  template <typename T>
  static std::vector<double> random(std::mt19937_64& engine, std::int64_t count, double most) {
    return widened(narrowed<T>(widened(random_values<float>(engine, count, most))));
  }

  template <typename T>
  Problem make(const Case& shape, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    Problem p{shape, {}, {}, {}, {}, {}, {}, {}, {}, 0.37};
    p.x = random<T>(engine, p.tokens() * shape.in, 1);
    p.weight = random<T>(engine, shape.classes * shape.in, 0.3);
    p.bias = random<float>(engine, shape.classes, 1);
    // The last class is always as likely as the first, so never the first of the largest.
    const auto in = static_cast<std::ptrdiff_t>(shape.in);
    std::copy(p.weight.begin(), p.weight.begin() + in, p.weight.end() - in);
    p.bias.back() = p.bias.front();
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      p.ids.push_back(static_cast<std::int32_t>(1000 + 3 * r));
      if (!shape.has_lengths) continue;
      const auto most = static_cast<std::uint64_t>(shape.time + 1);
      p.lengths.push_back(static_cast<std::int32_t>(engine() % most));
    }
    const auto factor = static_cast<float>(1 / (1 - shape.dropout));
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      const auto id = static_cast<std::uint32_t>(p.ids[static_cast<std::size_t>(n % shape.rows)]);
      for (std::int64_t i = 0; i < shape.in; ++i) {
        const std::uint32_t word = kKey.word(id, static_cast<std::uint32_t>(n / shape.rows),
                                             static_cast<std::uint32_t>(i));
        const bool keeps = word >= runtime::dropout_threshold(shape.dropout);
        const double x = p.x[static_cast<std::size_t>(n * shape.in + i)];
        p.kept.push_back(keeps ? static_cast<double>(factor) : 0);
        p.dropped.push_back(keeps ? widened(narrowed<T>({x * static_cast<double>(factor)}))[0] : 0);
      }
      const auto target = engine() % static_cast<std::uint64_t>(shape.classes);
      // What doesn't count isn't looked at.
      p.targets.push_back(p.counts(n) ? static_cast<std::int32_t>(target) : -1);
    }
    return p;
  }

  static std::vector<double> logits_of(const Problem& p, std::int64_t n) {
    std::vector<double> logits(p.bias);
    for (std::int64_t j = 0; j < p.shape.classes; ++j) {
      for (std::int64_t i = 0; i < p.shape.in; ++i) {
        logits[static_cast<std::size_t>(j)] +=
            p.dropped[static_cast<std::size_t>(n * p.shape.in + i)] *
            p.weight[static_cast<std::size_t>(j * p.shape.in + i)];
      }
    }
    return logits;
  }

  static Expected expect(const Problem& p) {
    const std::int64_t in = p.shape.in, classes = p.shape.classes;
    Expected e;
    e.dx.assign(p.x.size(), 0);
    e.dx_terms = e.dx;
    e.d_weight.assign(p.weight.size(), kBefore);
    e.weight_terms.assign(p.weight.size(), kBefore);
    e.d_bias.assign(p.bias.size(), kBefore);
    e.bias_terms = e.d_bias;
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      if (!p.counts(n)) continue;
      const std::vector<double> x = logits_of(p, n);
      const auto target = static_cast<std::size_t>(p.targets[static_cast<std::size_t>(n)]);
      const double z = log_sum(x.data(), classes);
      const double each = p.shape.smoothing / static_cast<double>(classes);
      e.sums[kLoss] +=
          token_loss(x.data(), classes, static_cast<std::int64_t>(target), p.shape.smoothing);
      e.sums[kNll] += z - x[target];
      e.sums[kTokens] += 1;
      e.sums[kCorrect] +=
          std::ranges::max_element(x) == x.begin() + static_cast<std::ptrdiff_t>(target) ? 1 : 0;
      for (std::int64_t j = 0; j < classes; ++j) {
        const auto c = static_cast<std::size_t>(j);
        const double goal = (c == target ? 1 - p.shape.smoothing : 0) + each;
        const double d = p.scale * (std::exp(x[c] - z) - goal);
        e.d_bias[c] += d;
        e.bias_terms[c] += std::fabs(d);
        for (std::int64_t i = 0; i < in; ++i) {
          const auto at = static_cast<std::size_t>(n * in + i);
          const auto w = static_cast<std::size_t>(j * in + i);
          const double back = d * p.weight[w] * p.kept[at], term = d * p.dropped[at];
          e.dx[at] += back;
          e.dx_terms[at] += std::fabs(back);
          e.d_weight[w] += term;
          e.weight_terms[w] += std::fabs(term);
        }
      }
    }
    return e;
  }

  void* scratch(std::size_t bytes) {
    return poisoned(DType::kUInt8, {static_cast<std::int64_t>(bytes)}).data();
  }
  template <typename T>
  ProjectedCrossEntropyArgs arguments(const Problem& p) {
    const Case& shape = p.shape;
    ProjectedCrossEntropyArgs args;
    args.time = shape.time;
    args.rows = shape.rows;
    args.x = put(narrowed<T>(p.x), {shape.time, shape.rows, shape.in});
    args.weight = put(narrowed<T>(p.weight), {shape.classes, shape.in});
    args.bias = put(narrowed<float>(p.bias));
    args.targets = put(p.targets, Shape{shape.time, shape.rows});
    if (!p.lengths.empty()) args.lengths = put(p.lengths);
    args.label_smoothing = shape.smoothing;
    args.dropout = shape.dropout;
    args.source = put_key(kKey);
    args.row_ids = put(p.ids);
    constexpr double kLossScale = 8;  // the gradient has both factors
    args.scale = put_number(p.scale / kLossScale);
    args.loss_scale = put_number(kLossScale);
    args.dx = poisoned(args.x.dtype(), args.x.shape());
    args.d_weight =
        put(std::vector<float>(p.weight.size(), static_cast<float>(kBefore)), args.weight.shape());
    args.d_bias = put(std::vector<float>(p.bias.size(), static_cast<float>(kBefore)));
    args.sums = poisoned(DType::kFloat64, {kSums});
    args.workspace = scratch(projected_cross_entropy_workspace_bytes(shape.classes, shape.in));
    args.mask = scratch(projected_mask_bytes(shape.time * shape.rows, shape.in));
    return args;
  }
  template <typename T>
  Outcome run(const Problem& p, bool draws_before = false) {
    ProjectedCrossEntropyArgs args = arguments<T>(p);
    args.is_drawn = draws_before;
    if (draws_before) draw_projected_mask(context_, args);
    projected_cross_entropy(context_, args);
    return {get<double>(args.sums), widened(get<T>(args.dx)), widened(get<float>(args.d_weight)),
            widened(get<float>(args.d_bias))};
  }

  /// Each number is within `relative` of its terms' magnitudes, and all of them together within
  /// that of their length: roundings of single terms mostly cancel.
  static void check(const std::vector<double>& got, const std::vector<double>& wanted,
                    const std::vector<double>& terms, double relative, std::string_view what) {
    ASSERT_EQ(got.size(), wanted.size());
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], wanted[i], relative * terms[i] + 1e-7) << what << " " << i;
      apart += (got[i] - wanted[i]) * (got[i] - wanted[i]);
      length += wanted[i] * wanted[i];
    }
    const auto smallest = 1e-7 * std::sqrt(static_cast<double>(got.size()));
    EXPECT_LE(std::sqrt(apart), relative * std::sqrt(length) + smallest) << what;
  }

  template <typename T>
  void check_case(const Case& shape, std::uint64_t seed) {
    SCOPED_TRACE(::testing::Message() << shape.time << " x " << shape.rows << " x " << shape.in
                                      << ", " << shape.classes << " classes");
    const Problem p = make<T>(shape, seed);
    const Expected e = expect(p);
    const Outcome outcome = run<T>(p);
    // Logits are sums in float32, of magnitudes of 10 or so: as in the test of cross_entropy.
    const double tolerance = 2e-6 * 10 * (1 + e.sums[kTokens]);
    EXPECT_NEAR(outcome.sums[kLoss], e.sums[kLoss], tolerance);
    EXPECT_NEAR(outcome.sums[kNll], e.sums[kNll], tolerance);
    EXPECT_EQ(outcome.sums[kTokens], e.sums[kTokens]);
    // Two logits may be as close as their errors.
    EXPECT_NEAR(outcome.sums[kCorrect], e.sums[kCorrect], 1);
    // The gradient of logits is rounded to T, and that of x twice more; what is less than T's
    // smallest normal number adds the 1e-7 of `check`.
    const double rounding = std::is_same_v<T, base::BFloat16> ? 0x1p-8 : 0x1p-11;
    check(outcome.dx, e.dx, e.dx_terms, 3 * rounding + 1e-5, "dx");
    check(outcome.d_weight, e.d_weight, e.weight_terms, rounding + 1e-5, "d_weight");
    check(outcome.d_bias, e.d_bias, e.bias_terms, rounding + 1e-5, "d_bias");
    const Outcome again = run<T>(p, true);
    EXPECT_EQ(again.sums, outcome.sums);
    EXPECT_EQ(again.dx, outcome.dx);
    EXPECT_EQ(again.d_weight, outcome.d_weight);
    EXPECT_EQ(again.d_bias, outcome.d_bias);
    release_memory();
  }

  bool is_taken() const { return projects(context_, DType::kBFloat16, 384, 35); }
};

TEST_P(ProjectedLoss, IsTheLossOfTheLayersOutputs) {
  if (!is_taken()) GTEST_SKIP() << "device " << device_->name() << " has no such operation";
  // Less than a tile, several with a part at the end, and more than blocks.
  const Case cases[]{{3, 7, 384, 35, 0.1, 0.2, true},
                     {5, 129, 384, 48, 0, 0.5, true},
                     {13, 31, 384, 3, 0, 0, false},
                     {149, 120, 384, 37, 0.05, 0.2, true}};
  std::uint64_t seed = 1;
  for (const Case& shape : cases) {
    check_case<base::BFloat16>(shape, seed++);
    check_case<base::Float16>(shape, seed++);
  }
}

TEST_P(ProjectedLoss, ATargetOutsideTheClassesMakesItNaN) {
  if (!is_taken()) GTEST_SKIP() << "device " << device_->name() << " has no such operation";
  Problem p = make<base::BFloat16>({3, 7, 384, 35, 0, 0.2, false}, 5);
  for (const std::int32_t target : {-1, 35, 47, 48}) {
    p.targets[10] = target;
    const Outcome outcome = run<base::BFloat16>(p);
    EXPECT_TRUE(std::isnan(outcome.sums[kLoss])) << target;
    EXPECT_EQ(outcome.sums[kTokens], 21);
  }
}

TEST_P(ProjectedLoss, RefusesWhatTheDeviceDoesNotTake) {
  EXPECT_FALSE(projects(context_, DType::kFloat32, 384, 35));
  std::vector<Case> refused{{1, 3, 256, 35, 0, 0, false}, {1, 3, 384, 49, 0, 0, false}};
  if (!is_taken()) refused.push_back({1, 3, 384, 35, 0, 0, false});
  for (const Case& shape : refused) {
    EXPECT_FALSE(projects(context_, DType::kBFloat16, shape.in, shape.classes));
    const auto args = arguments<base::BFloat16>(make<base::BFloat16>(shape, 6));
    const Error error = testing::error_of([&] { projected_cross_entropy(context_, args); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.what(), fmt::format("projected_cross_entropy: device {} doesn't take {} "
                                        "classes of {} bfloat16 numbers",
                                        device_->name(), shape.classes, shape.in));
  }
}

// Whether or not the device has the operation: that is asked for last.
TEST_P(ProjectedLoss, RefusesBadArguments) {
  using Args = ProjectedCrossEntropyArgs;
  const Args good = arguments<base::BFloat16>(make<base::BFloat16>({2, 3, 384, 35, 0, 0, true}, 6));
  const Tensor numbers = poisoned(DType::kFloat32, {3}),
               large = poisoned(DType::kBFloat16, {36, 384});
  const auto refuse = [&](std::string_view reason, const auto& spoil) {
    Args bad = good;
    spoil(bad);
    const Error error = testing::error_of([&] { projected_cross_entropy(context_, bad); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(reason), std::string_view::npos) << error.what();
  };
  refuse(": x must be [2 steps, 4 rows, in], not", [](Args& bad) { bad.rows = 4; });
  refuse(": x must be [3 steps, 3 rows, in], not", [](Args& bad) { bad.time = 3; });
  refuse(": x must be contiguous", [](Args& bad) {
    bad.x = bad.x.slice(1, 0, 2);
    bad.rows = 2;
  });
  refuse(": weight must be [classes, in], not", [&](Args& bad) { bad.weight = numbers; });
  refuse(": weight must be bfloat16", [](Args& bad) { bad.weight = bad.d_weight; });
  refuse(": bias must have shape [36]", [&](Args& bad) { bad.weight = large; });
  refuse(": targets must be int32", [&](Args& bad) { bad.targets = numbers; });
  refuse(": lengths and ids must be int32", [&](Args& bad) { bad.lengths = numbers; });
  refuse(": lengths and ids must be int32", [&](Args& bad) { bad.row_ids = numbers; });
  refuse("must be in [0, 1), not 1", [](Args& bad) { bad.label_smoothing = 1; });
  refuse("must be in [0, 1), not 1", [](Args& bad) { bad.dropout = 1; });
  refuse("must be in [0, 1), not -0.1", [](Args& bad) { bad.dropout = -0.1; });
  refuse(": scale must be float64", [&](Args& bad) { bad.scale = numbers; });
  refuse(": scale must be float64", [&](Args& bad) { bad.loss_scale = numbers; });
  refuse(": dx must be bfloat16", [&](Args& bad) { bad.dx = numbers; });
  refuse(": d_weight must be float32", [](Args& bad) { bad.d_weight = bad.weight; });
  refuse(": d_bias must have shape [35]", [&](Args& bad) { bad.d_bias = numbers; });
  refuse(": sums must be float64", [&](Args& bad) { bad.sums = numbers; });
  refuse(": needs a workspace", [](Args& bad) { bad.workspace = nullptr; });
}

INSTANTIATE_TEST_SUITE_P(Devices, ProjectedLoss, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
