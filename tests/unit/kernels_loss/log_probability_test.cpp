#include <limits>

#include "unit/kernels_loss/cross_entropy_case.h"

namespace sluice::kernels::loss {
namespace {

class LogProbability : public CrossEntropyCase {};

TEST_P(LogProbability, OfTargets) {
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
    EXPECT_TRUE(testing::same_bits(rows, sums));
  }
}

TEST_P(LogProbability, OfAllClasses) {
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
  EXPECT_TRUE(testing::same_bits(get<float>(logits), result));
}

INSTANTIATE_TEST_SUITE_P(Devices, LogProbability, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
