#include "kernels/loss/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/support/on_device.h"

namespace sluice::kernels::loss {
namespace {

using base::DType;
using base::Shape;
using testing::random_values;
using testing::same_bits;
using testing::widened;

struct Problem {
  std::int64_t time, rows, vocabulary;
  double smoothing, scale;
  std::vector<double> logits;
  std::vector<std::int32_t> targets, lengths;
  std::vector<float> weights{};  ///< of classes; empty: all are 1

  std::int64_t tokens() const { return time * rows; }
  bool counts(std::int64_t n) const {
    return n / rows < lengths[static_cast<std::size_t>(n % rows)];
  }
  double weight(std::int32_t target) const {
    return weights.empty() ? 1 : static_cast<double>(weights[static_cast<std::size_t>(target)]);
  }
  const double* row(std::int64_t n) const { return logits.data() + n * vocabulary; }
};

double log_sum(const double* x, std::int64_t count) {
  double largest = x[0];
  for (std::int64_t j = 1; j < count; ++j) largest = std::fmax(largest, x[j]);
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += std::exp(x[j] - largest);
  return largest + std::log(sum);
}

/// The definition, term by term.
double token_loss(const double* x, std::int64_t vocabulary, std::int64_t target, double smoothing) {
  const double z = log_sum(x, vocabulary);
  double loss = (1 - smoothing) * (z - x[target]);
  for (std::int64_t j = 0; j < vocabulary; ++j) {
    loss += smoothing / static_cast<double>(vocabulary) * (z - x[j]);
  }
  return loss;
}

struct Expected {
  double sums[kSums] = {};
  std::vector<double> gradient;
};

Expected expect(const Problem& p) {
  Expected e;
  e.gradient.assign(p.logits.size(), 0.0);
  for (std::int64_t n = 0; n < p.tokens(); ++n) {
    if (!p.counts(n)) continue;
    const double* x = p.row(n);
    const auto target = p.targets[static_cast<std::size_t>(n)];
    const double z = log_sum(x, p.vocabulary);
    e.sums[kLoss] += p.weight(target) * token_loss(x, p.vocabulary, target, p.smoothing);
    e.sums[kNll] += z - x[target];
    e.sums[kTokens] += 1;
    e.sums[kCorrect] += std::max_element(x, x + p.vocabulary) == x + target ? 1 : 0;
    for (std::int64_t j = 0; j < p.vocabulary; ++j) {
      const double goal =
          (j == target ? 1 - p.smoothing : 0) + p.smoothing / static_cast<double>(p.vocabulary);
      e.gradient[static_cast<std::size_t>(n * p.vocabulary + j)] =
          p.weight(target) * p.scale * (std::exp(x[j] - z) - goal);
    }
  }
  return e;
}

template <typename T>
constexpr double kTolerance = std::is_same_v<T, double> ? 1e-13 : 2e-6;

class Loss : public testing::OnDevice {
 protected:
  template <typename T>
  Problem make(std::int64_t time, std::int64_t rows, std::int64_t vocabulary, double smoothing,
               std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    Problem p{time, rows, vocabulary, smoothing, 0.37, {}, {}, {}};
    p.logits = widened(random_values<T>(engine, time * rows * vocabulary, 6.0));
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      const auto j = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(vocabulary));
      p.targets.push_back(static_cast<std::int32_t>(j));
      // Every third token is one that the model gets right.
      if (n % 3 == 0) p.logits[static_cast<std::size_t>(n * vocabulary + j)] = 7;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      p.lengths.push_back(
          static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(time + 1)));
    }
    return p;
  }

  template <typename T>
  Tensor put_logits(const Problem& p) {
    return put(std::vector<T>(p.logits.begin(), p.logits.end()), Shape{p.tokens(), p.vocabulary});
  }

  template <typename T>
  CrossEntropyArgs arguments(const Problem& p) {
    CrossEntropyArgs args;
    args.time = p.time;
    args.rows = p.rows;
    args.logits = put_logits<T>(p);
    args.targets = put(p.targets);
    args.lengths = put(p.lengths);
    args.label_smoothing = p.smoothing;
    if (!p.weights.empty()) args.class_weights = put(p.weights);
    constexpr double kLossScale = 8;  // the gradient has both factors
    args.scale = put_number(p.scale / kLossScale);
    args.loss_scale = put_number(kLossScale);
    args.d_logits = poisoned(base::dtype_of<T>(), args.logits.shape());
    args.sums = poisoned(DType::kFloat64, {kSums});
    const auto bytes = static_cast<std::int64_t>(cross_entropy_workspace_bytes(p.tokens()));
    args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  template <typename T>
  void check_results(const Problem& p, const CrossEntropyArgs& args) {
    const Expected e = expect(p);
    const auto sums = get<double>(args.sums);
    const double tolerance = kTolerance<T> * (1 + e.sums[kTokens]) * 7;  // logits up to 7
    EXPECT_NEAR(sums[kLoss], e.sums[kLoss], tolerance);
    EXPECT_NEAR(sums[kNll], e.sums[kNll], tolerance);
    EXPECT_EQ(sums[kTokens], e.sums[kTokens]);
    EXPECT_EQ(sums[kCorrect], e.sums[kCorrect]);
    if (!args.d_logits) return;
    const auto gradient = get<T>(args.d_logits);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(gradient[i], e.gradient[i], kTolerance<T>) << "at " << i;
    }
  }

  /// Of logits of 16 bits, with rows that may have further columns.
  template <typename L>
  void check_narrow(std::int64_t time, std::int64_t rows, std::int64_t vocabulary, double smoothing,
                    bool in_place) {
    Problem p = make<float>(time, rows, vocabulary, smoothing, 23);
    const std::int64_t columns = (vocabulary + 7) / 8 * 8;
    std::vector<L> stored(static_cast<std::size_t>(p.tokens() * columns), L(NAN));
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        double& logit = p.logits[static_cast<std::size_t>(n * vocabulary + j)];
        L& at = stored[static_cast<std::size_t>(n * columns + j)];
        at = L(static_cast<float>(logit));
        logit = static_cast<double>(static_cast<float>(at));
      }
    }
    const Expected e = expect(p);
    CrossEntropyArgs args = arguments<float>(p);
    const Tensor whole = put(stored, Shape{p.tokens(), columns});
    args.logits = whole.slice(1, 0, vocabulary);
    args.d_logits = in_place ? whole : poisoned(base::dtype_of<L>(), {p.tokens(), columns});
    args.d_bias = put(std::vector<float>(static_cast<std::size_t>(vocabulary), 0.5F));
    cross_entropy(context_, args);
    const auto sums = get<double>(args.sums);
    const double tolerance = kTolerance<float> * (1 + e.sums[kTokens]) * 7;
    EXPECT_NEAR(sums[kLoss], e.sums[kLoss], tolerance);
    EXPECT_NEAR(sums[kNll], e.sums[kNll], tolerance);
    EXPECT_EQ(sums[kTokens], e.sums[kTokens]);
    EXPECT_EQ(sums[kCorrect], e.sums[kCorrect]);
    // Half a unit of the last place, and what float32 is off by, in which float16's smallest are.
    const double unit = std::is_same_v<L, base::Float16> ? 0x1p-11 : 0x1p-8;
    const auto gradient = get<L>(args.d_logits);
    const auto bias = get<float>(args.d_bias);
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0, sizes = 0;
      for (std::int64_t n = 0; n < p.tokens(); ++n) {
        const L at = gradient[static_cast<std::size_t>(n * columns + j)];
        const auto value = static_cast<double>(static_cast<float>(at));
        const double exact =
            j < vocabulary ? e.gradient[static_cast<std::size_t>(n * vocabulary + j)] : 0;
        ASSERT_NEAR(value, exact, unit * std::abs(exact) + kTolerance<float>)
            << "token " << n << " at " << j;
        sum += exact;
        sizes += std::abs(exact);
      }
      if (j >= vocabulary) continue;
      ASSERT_NEAR(bias[static_cast<std::size_t>(j)], 0.5 + sum,
                  unit * sizes + kTolerance<float> * static_cast<double>(p.tokens()))
          << "at " << j;
    }
    release_memory();
  }

  /// The last is more than a GPU's block keeps of a row of float32, the last but one of float64.
  template <typename T>
  void check_all() {
    std::uint64_t seed = 1;
    for (const std::int64_t vocabulary :
         {1, 2, 15, 16, 17, 33, 1000, 1024, 2077, 2080, 32000, 60000}) {
      for (const double smoothing : {0.0, 0.1}) {
        const std::int64_t rows = vocabulary > 9999 ? 1 : vocabulary > 999 ? 3 : 7;
        const Problem p = make<T>(5, rows, vocabulary, smoothing, ++seed);
        CrossEntropyArgs args = arguments<T>(p);
        cross_entropy(context_, args);
        check_results<T>(p, args);
        args.d_logits = args.logits;  // over the logits
        args.sums = poisoned(DType::kFloat64, {kSums});
        cross_entropy(context_, args);
        check_results<T>(p, args);
        args.logits = put_logits<T>(p);
        args.d_logits = Tensor();  // no gradient
        args.sums = put(std::vector<double>(kSums, 1.0));
        args.accumulate_sums = true;
        cross_entropy(context_, args);
        EXPECT_EQ(get<double>(args.sums)[kTokens], 1 + expect(p).sums[kTokens]);
      }
    }
  }
};

TEST_P(Loss, Float32EqualsTheDefinition) { check_all<float>(); }
TEST_P(Loss, Float64EqualsTheDefinition) {
  if (!try_float64([&] { check_all<double>(); })) {
    GTEST_SKIP() << "this device takes no float64";
  }
}

// More rows than a GPU has blocks for at a time, so that each fetches one while it works on
// another.
TEST_P(Loss, ManyRows) {
  for (const std::int64_t vocabulary : {1100, 9000}) {
    const Problem p = make<float>(5, vocabulary > 8192 ? 31 : 120, vocabulary, 0.1, 21);
    CrossEntropyArgs args = arguments<float>(p);
    cross_entropy(context_, args);
    check_results<float>(p, args);
    args.d_logits = args.logits;
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    check_results<float>(p, args);
  }
}

TEST_P(Loss, AFactorMultipliesTheGradientAlone) {
  const Problem p = make<float>(3, 4, 2080, 0.1, 8);
  CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  const auto gradient = get<float>(args.d_logits);
  const auto sums = get<double>(args.sums);
  args.gradient_factor = 1 << 14;
  args.sums = poisoned(DType::kFloat64, {kSums});
  cross_entropy(context_, args);
  const auto larger = get<float>(args.d_logits);
  EXPECT_EQ(get<double>(args.sums), sums);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(larger[i], gradient[i] * (1 << 14), 1e-6 * (1 << 14)) << "at " << i;
  }
}

TEST_P(Loss, ClassWeightsMultiplyLossAndGradient) {
  std::mt19937_64 engine(5);
  for (const std::int64_t vocabulary : {1, 3, 17, 1029}) {
    for (const double smoothing : {0.0, 0.1}) {
      Problem p =
          make<float>(6, 5, vocabulary, smoothing, 11 + static_cast<std::uint64_t>(vocabulary));
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        // Between 0 and 2, as some classes have none.
        p.weights.push_back(static_cast<float>(engine() % 9) / 4);
      }
      CrossEntropyArgs args = arguments<float>(p);
      cross_entropy(context_, args);
      check_results<float>(p, args);
      args.d_logits = args.logits;
      args.sums = poisoned(DType::kFloat64, {kSums});
      cross_entropy(context_, args);
      check_results<float>(p, args);
    }
  }
  // All of them 1 change no bit.
  Problem p = make<float>(4, 3, 21, 0.1, 3);
  const CrossEntropyArgs plain = arguments<float>(p);
  cross_entropy(context_, plain);
  p.weights.assign(21, 1.0F);
  CrossEntropyArgs weighted = arguments<float>(p);
  cross_entropy(context_, weighted);
  EXPECT_TRUE(same_bits(get<float>(plain.d_logits), get<float>(weighted.d_logits)));
  EXPECT_TRUE(same_bits(get<double>(plain.sums), get<double>(weighted.sums)));
  weighted.class_weights = put(std::vector<float>(20, 1.0F));
  EXPECT_THROW(cross_entropy(context_, weighted), Error);
}

// So long and so many that what holds some rows at once is used over and over.
TEST_P(Loss, ManyLongRows) {
  const std::int64_t rows = device_->runs_host_kernels() ? 2 : 109, vocabulary = 32000;
  const Problem p = make<float>(5, rows, vocabulary, 0.1, 22);
  const CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  check_results<float>(p, args);
  release_memory();
  check_narrow<base::BFloat16>(5, rows, vocabulary, 0.1, true);
}

// So many that whoever works on one has to go on with another.
TEST_P(Loss, ManyTokensEqualTheDefinition) {
  for (const std::int64_t vocabulary : {1028, 1031}) {
    const Problem p = make<float>(40, 17, vocabulary, 0.1, 7);
    CrossEntropyArgs args = arguments<float>(p);
    cross_entropy(context_, args);
    check_results<float>(p, args);
    args.d_logits = Tensor();
    cross_entropy(context_, args);
    check_results<float>(p, args);
    args.d_logits = args.logits;
    cross_entropy(context_, args);
    check_results<float>(p, args);
    release_memory();
  }
  // Sums of several parts.
  const Problem p = make<float>(90, 101, 5, 0, 8);
  const CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  check_results<float>(p, args);
}

// What a layer of 16 bits takes: rounded once, by the same arithmetic.
TEST_P(Loss, NarrowGradientsAreTheWideOnesRounded) {
  for (const std::int64_t vocabulary : {5, 1028, 2077}) {
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 21);
    CrossEntropyArgs args = arguments<float>(p);
    cross_entropy(context_, args);
    const auto wide = get<float>(args.d_logits);
    const auto sums = get<double>(args.sums);
    const auto check = [&](auto tag) {
      using G = typename decltype(tag)::type;
      args.d_logits = poisoned(base::dtype_of<G>(), args.logits.shape());
      args.sums = poisoned(DType::kFloat64, {kSums});
      cross_entropy(context_, args);
      EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
      const auto narrow = get<G>(args.d_logits);
      for (std::size_t i = 0; i < wide.size(); ++i)
        ASSERT_EQ(narrow[i].bits, G(wide[i]).bits) << "at " << i;
    };
    check(base::TypeTag<base::BFloat16>{});
    check(base::TypeTag<base::Float16>{});
  }
}

// The same results as of the same numbers in float32, whose gradient is rounded once, in place too.
TEST_P(Loss, NarrowLogitsAreReckonedAsWide) {
  for (const std::int64_t vocabulary : {5, 1032, 2077, 4103, 32768, 33000}) {
    const std::int64_t rows = vocabulary > 9999 ? 2 : 7;
    for (const bool in_place : {false, true}) {
      const double smoothing = in_place ? 0 : 0.1;
      check_narrow<base::BFloat16>(5, rows, vocabulary, smoothing, in_place);
      check_narrow<base::Float16>(5, rows, vocabulary, 0.1 - smoothing, in_place);
    }
  }
}

// What a row's sums are depends on its length and type alone.
TEST_P(Loss, NarrowSumsDoNotDependOnTheGradient) {
  for (const std::int64_t vocabulary : {40, 4104}) {
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 24);
    CrossEntropyArgs args = arguments<float>(p);
    std::vector<base::BFloat16> stored;
    for (const double logit : p.logits) stored.emplace_back(static_cast<float>(logit));
    args.logits = put(stored, Shape{p.tokens(), vocabulary});
    args.d_logits = Tensor();
    cross_entropy(context_, args);
    const auto sums = get<double>(args.sums);
    args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
  }
}

TEST_P(Loss, NarrowLogitsMustLieInWholePieces) {
  const Problem p = make<float>(2, 3, 20, 0, 4);
  CrossEntropyArgs args = arguments<float>(p);
  args.d_logits = Tensor();
  args.logits = poisoned(DType::kBFloat16, {6, 20});
  EXPECT_THROW(cross_entropy(context_, args), Error);
  args.logits = poisoned(DType::kBFloat16, {6, 24}).slice(1, 0, 20);
  args.d_logits = poisoned(DType::kFloat16, {6, 24});
  EXPECT_THROW(cross_entropy(context_, args), Error);
}

// Rows that are further apart than they are long: logits as they were, a gradient with zeros
// behind.
TEST_P(Loss, PaddedRowsHaveTheSameResults) {
  for (const std::int64_t vocabulary : {35, 36, 1029, 2077}) {
    const std::int64_t columns = (vocabulary + 7) / 8 * 8;
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 22);
    CrossEntropyArgs args = arguments<float>(p);
    args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
    cross_entropy(context_, args);
    const auto gradient = get<base::BFloat16>(args.d_logits);
    const auto sums = get<double>(args.sums);
    std::vector<float> apart(static_cast<std::size_t>(p.tokens() * columns), NAN);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      std::copy_n(p.row(n), vocabulary, apart.begin() + n * columns);
    }
    args.logits = put(apart, Shape{p.tokens(), columns}).slice(1, 0, vocabulary);
    args.d_logits = poisoned(DType::kBFloat16, {p.tokens(), columns});
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
    const auto padded = get<base::BFloat16>(args.d_logits);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto bits = padded[static_cast<std::size_t>(n * columns + j)].bits;
        const auto at = static_cast<std::size_t>(n * vocabulary + j);
        ASSERT_EQ(bits, j < vocabulary ? gradient[at].bits : 0) << "token " << n << " at " << j;
      }
    }
  }
}

TEST_P(Loss, GradientEqualsFiniteDifferences) {
  const bool ran = try_float64([&] {
    Problem p = make<double>(3, 4, 13, 0.1, 99);
    const CrossEntropyArgs args = arguments<double>(p);
    cross_entropy(context_, args);
    const auto gradient = get<double>(args.d_logits);
    const auto loss_at = [&] {
      const CrossEntropyArgs moved = arguments<double>(p);
      cross_entropy(context_, moved);
      return get<double>(moved.sums)[kLoss];
    };
    for (std::size_t i = 0; i < gradient.size(); i += 5) {
      const double x = p.logits[i], h = 1e-5;
      p.logits[i] = x + h;
      const double above = loss_at();
      p.logits[i] = x - h;
      const double below = loss_at();
      p.logits[i] = x;
      // Central differences: error h^2 from the third derivative, eps * loss / h from rounding.
      EXPECT_NEAR(gradient[i], p.scale * (above - below) / (2 * h), 1e-8) << "at " << i;
    }
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

TEST_P(Loss, HugeLogitsDoNotOverflow) {
  Problem p{1, 3, 4, 0.1, 1, {}, {0, 1, 2}, {1, 1, 1}};
  p.logits = {1e30, -1e30, 0, 5, 3e4, 3e4, 3e4, 3e4, -2e5, -1e5, -1e5 - 1, -3e38};
  const CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  const auto sums = get<double>(args.sums);
  EXPECT_TRUE(std::isfinite(sums[kLoss]));
  const double expected_nll = 0 + std::log(4.0) + 1 + std::log1p(std::exp(-1.0));
  EXPECT_NEAR(sums[kNll], expected_nll, 1e-5);
  for (const float g : get<float>(args.d_logits)) EXPECT_TRUE(std::isfinite(g));
}

TEST_P(Loss, NanCountsOnlyWhereTokensCount) {
  Problem p = make<float>(2, 2, 20, 0, 5);
  p.lengths = {2, 1};
  p.logits[static_cast<std::size_t>(3 * 20 + 4)] = std::numeric_limits<double>::quiet_NaN();
  CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  EXPECT_TRUE(std::isfinite(get<double>(args.sums)[kLoss]));
  for (const float g : get<float>(args.d_logits)) EXPECT_TRUE(std::isfinite(g));
  args.lengths = Tensor();  // now every token counts
  cross_entropy(context_, args);
  EXPECT_TRUE(std::isnan(get<double>(args.sums)[kLoss]));
  EXPECT_EQ(get<double>(args.sums)[kTokens], 4);
}

TEST_P(Loss, TokensDoNotDependOnEachOtherOrOnThreads) {
  const Problem p = make<float>(7, 5, 2049, 0.1, 17);
  CrossEntropyArgs args = arguments<float>(p);
  args.lengths = Tensor();
  cross_entropy(context_, args);
  const auto sums = get<double>(args.sums);
  const auto gradient = get<float>(args.d_logits);
  set_threads(3);
  cross_entropy(context_, args);
  EXPECT_TRUE(same_bits(sums, get<double>(args.sums)));
  EXPECT_TRUE(same_bits(gradient, get<float>(args.d_logits)));
  CrossEntropyArgs single = args;
  single.time = single.rows = 1;
  for (const std::int64_t n : {0, 11, 34}) {
    single.logits = args.logits.slice(0, n, n + 1);
    single.targets = args.targets.slice(0, n, n + 1);
    single.d_logits = poisoned(DType::kFloat32, {1, p.vocabulary});
    cross_entropy(context_, single);
    EXPECT_TRUE(
        same_bits(get<float>(single.d_logits), get<float>(args.d_logits.slice(0, n, n + 1))));
  }
}

TEST_P(Loss, ScoresOfTargets) {
  for (const std::int64_t vocabulary : {3, 40, 1031}) {
    const Problem p = make<float>(6, 5, vocabulary, 0, 3);
    TargetScoreArgs args;
    args.time = p.time;
    args.rows = p.rows;
    args.logits = put_logits<float>(p);
    args.targets = put(p.targets);
    args.lengths = put(p.lengths);
    args.token_scores = poisoned(DType::kFloat64, {p.tokens()});
    args.row_scores = poisoned(DType::kFloat64, {p.rows});
    score_targets(context_, args);
    const auto tokens = get<double>(args.token_scores), rows = get<double>(args.row_scores);
    std::vector<double> sums(static_cast<std::size_t>(p.rows), 0.0);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      const auto at = static_cast<std::size_t>(n);
      const double expected =
          p.counts(n) ? p.row(n)[p.targets[at]] - log_sum(p.row(n), vocabulary) : 0;
      EXPECT_NEAR(tokens[at], expected, kTolerance<float>);
      sums[static_cast<std::size_t>(n % p.rows)] += tokens[at];
    }
    EXPECT_TRUE(same_bits(rows, sums));
  }
}

TEST_P(Loss, LogSoftmax) {
  Problem p = make<float>(3, 5, 517, 0, 8);
  p.logits[3] = -std::numeric_limits<double>::infinity();
  const Tensor logits = put_logits<float>(p);
  const Tensor out = poisoned(DType::kFloat32, logits.shape());
  log_softmax(context_, logits, out);
  const auto result = get<float>(out);
  for (std::int64_t n = 0; n < p.tokens(); ++n) {
    const double z = log_sum(p.row(n), p.vocabulary);
    for (std::int64_t j = 0; j < p.vocabulary; ++j) {
      const float value = result[static_cast<std::size_t>(n * p.vocabulary + j)];
      if (n == 0 && j == 3) {
        EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
      } else {
        // Two roundings of numbers below 32, and that of the sum.
        ASSERT_NEAR(value, p.row(n)[j] - z, 4e-6);
      }
    }
  }
  log_softmax(context_, logits, logits);
  EXPECT_TRUE(same_bits(get<float>(logits), result));
}

TEST_P(Loss, RefusesBadArguments) {
  const Problem p = make<float>(2, 3, 10, 0, 4);
  const CrossEntropyArgs good = arguments<float>(p);
  CrossEntropyArgs bad = good;
  bad.label_smoothing = 1;
  EXPECT_THROW(cross_entropy(context_, bad), Error);
  bad = good;
  bad.rows = 4;
  EXPECT_THROW(cross_entropy(context_, bad), Error);
  bad = good;
  bad.sums = poisoned(DType::kFloat64, {1});
  EXPECT_THROW(cross_entropy(context_, bad), Error);
  bad = good;
  bad.d_logits = poisoned(DType::kFloat32, {6, 9});
  EXPECT_THROW(cross_entropy(context_, bad), Error);
  bad = good;
  bad.workspace = nullptr;
  EXPECT_THROW(cross_entropy(context_, bad), Error);
  bad = good;
  bad.lengths = Tensor();
  bad.targets = put(std::vector<std::int32_t>{0, 1, 10, 3, 4, 5});
  const auto run = [&] {
    cross_entropy(context_, bad);
    context_.synchronize();
  };
  if (device_->runs_host_kernels()) {
    EXPECT_THROW(run(), Error);
  } else {
    run();  // a GPU can't throw
    EXPECT_TRUE(std::isnan(get<double>(bad.sums)[kLoss]));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Loss, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
