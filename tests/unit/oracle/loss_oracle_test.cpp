#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "finite_differences.h"
#include "oracle/loss.h"
#include "random_values.h"

namespace sluice::oracle {
namespace {

TEST(LossOracle, GradientsEqualFiniteDifferences) {
  RandomValues random(13);
  for (const double smoothing : {0.0, 0.1, 0.9})
    for (int trial = 0; trial < 5; ++trial) {
      const int64_t tokens = random.integer(1, 7), vocabulary = random.integer(1, 9);
      std::vector<double> logits = random.vector(tokens * vocabulary, 3.0);
      std::vector<int> targets;
      std::vector<bool> counts;
      for (int64_t n = 0; n < tokens; ++n) {
        targets.push_back(static_cast<int>(random.integer(0, vocabulary - 1)));
        counts.push_back(random.integer(0, 3) > 0);
      }
      const double scale = 0.25;
      const LossResult result =
          cross_entropy(vocabulary, logits, targets, counts, smoothing, scale);
      expect_gradient(
          "logits", logits, result.dlogits,
          [&] {
            return scale * cross_entropy(vocabulary, logits, targets, counts, smoothing, 1.0).sum;
          },
          random);
    }
}

TEST(LossOracle, MatchesTheDefinitionAndSkipsWhatDoesNotCount) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0), 9, 9, 9};
  const LossResult result = cross_entropy(3, logits, {1, -1}, {true, false}, 0.3, 2.0);
  const double expected =
      0.7 * -std::log(0.25) + 0.1 * (-std::log(0.125) - std::log(0.25) - std::log(0.625));
  EXPECT_NEAR(result.sum, expected, 1e-15 * 10);
  EXPECT_EQ(result.tokens, 1);
  EXPECT_EQ(result.per_token[1], 0.0);
  EXPECT_NEAR(result.dlogits[0], 2 * (0.125 - 0.1), 1e-15);
  EXPECT_NEAR(result.dlogits[1], 2 * (0.25 - 0.8), 1e-15);
  EXPECT_EQ(result.dlogits[4], 0.0);
}

TEST(LossOracle, LargeLogitsStayFinite) {
  const LossResult result = cross_entropy(2, {1000.0, -1000.0}, {1}, {}, 0.0, 1.0);
  EXPECT_DOUBLE_EQ(result.sum, 2000.0);
}

TEST(LossOracle, RefusesATargetOutsideTheVocabulary) {
  EXPECT_THROW(cross_entropy(2, {0, 0}, {2}, {}, 0.0, 1.0), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::oracle
