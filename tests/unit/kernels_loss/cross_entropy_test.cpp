#include <cmath>
#include <limits>

#include "unit/kernels_loss/cross_entropy_case.h"

namespace sluice::kernels::loss {
namespace {

using testing::same_bits;

class CrossEntropy : public CrossEntropyCase {
 protected:
  /// The last is more than a GPU's block keeps of a row of float32, the last but one of float64.
  template <typename T>
  void check_all() {
    std::uint64_t seed = 1;
    for (const std::int64_t vocabulary :
         {1, 2, 15, 16, 17, 33, 1000, 1024, 2077, 2080, 32000, 60000}) {
      for (const double smoothing : {0.0, 0.1}) {
        const std::int64_t rows = vocabulary > 9999 ? 1 : vocabulary > 999 ? 3 : 7;
        const Problem p = make<T>(5, rows, vocabulary, smoothing, ++seed);
        check_beside_and_in_place<T>(p);
        CrossEntropyArgs args = arguments<T>(p);
        args.d_logits = Tensor();  // no gradient
        args.sums = put(std::vector<double>(kSums, 1.0));
        args.accumulate_sums = true;
        cross_entropy(context_, args);
        EXPECT_EQ(get<double>(args.sums)[kTokens], 1 + expect(p).sums[kTokens]);
      }
    }
  }
};

TEST_P(CrossEntropy, Float32EqualsTheDefinition) { check_all<float>(); }
TEST_P(CrossEntropy, Float64EqualsTheDefinition) {
  if (!try_float64([&] { check_all<double>(); })) {
    GTEST_SKIP() << "this device takes no float64";
  }
}

// More rows than a GPU has blocks for at a time, so that each fetches one while it works on
// another.
TEST_P(CrossEntropy, ManyRows) {
  for (const std::int64_t vocabulary : {1100, 9000}) {
    const Problem p = make<float>(5, vocabulary > 8192 ? 31 : 120, vocabulary, 0.1, 21);
    check_beside_and_in_place<float>(p);
  }
}

TEST_P(CrossEntropy, AFactorMultipliesTheGradientAlone) {
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

TEST_P(CrossEntropy, ClassWeightsMultiplyLossAndGradient) {
  std::mt19937_64 engine(5);
  for (const std::int64_t vocabulary : {1, 3, 17, 1029}) {
    for (const double smoothing : {0.0, 0.1}) {
      Problem p =
          make<float>(6, 5, vocabulary, smoothing, 11 + static_cast<std::uint64_t>(vocabulary));
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        // Between 0 and 2, as some classes have none.
        p.weights.push_back(static_cast<float>(engine() % 9) / 4);
      }
      check_beside_and_in_place<float>(p);
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
TEST_P(CrossEntropy, ManyLongRows) {
  const std::int64_t rows = device_->runs_host_kernels() ? 2 : 109, vocabulary = 32000;
  const Problem p = make<float>(5, rows, vocabulary, 0.1, 22);
  const CrossEntropyArgs args = arguments<float>(p);
  cross_entropy(context_, args);
  check_results<float>(p, args);
}

// So many that whoever works on one has to go on with another.
TEST_P(CrossEntropy, ManyTokensEqualTheDefinition) {
  for (const std::int64_t vocabulary : {1028, 1031}) {
    const Problem p = make<float>(40, 17, vocabulary, 0.1, 7);
    check_beside_and_in_place<float>(p);
    CrossEntropyArgs args = arguments<float>(p);
    args.d_logits = Tensor();
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

TEST_P(CrossEntropy, GradientEqualsFiniteDifferences) {
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

TEST_P(CrossEntropy, HugeLogitsDoNotOverflow) {
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

TEST_P(CrossEntropy, NanCountsOnlyWhereTokensCount) {
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

TEST_P(CrossEntropy, TokensDoNotDependOnEachOtherOrOnThreads) {
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

TEST_P(CrossEntropy, RefusesBadArguments) {
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

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropy, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
