#include <gtest/gtest.h>

#include <cmath>

#include "finite_differences.h"
#include "oracle/crf.h"
#include "random_values.h"

namespace sluice::oracle {
namespace {

CrfSequence draw(RandomValues& random, int64_t time, int64_t labels) {
  return {labels, random.vector(time * labels, 2.0), random.vector(labels * labels, 2.0),
          random.vector(labels, 2.0), random.vector(labels, 2.0)};
}

void expect_equal(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(CrfOracle, DynamicProgrammingEqualsEnumeration) {
  RandomValues random(3);
  for (int trial = 0; trial < 20; ++trial) {
    const CrfSequence s = draw(random, random.integer(0, 5), random.integer(1, 4));
    const CrfResult expected = crf_by_enumeration(s), result = crf(s);
    EXPECT_NEAR(result.log_z, expected.log_z, 1e-12);
    expect_equal(result.marginals.emissions, expected.marginals.emissions);
    expect_equal(result.marginals.transitions, expected.marginals.transitions);
    expect_equal(result.marginals.start, expected.marginals.start);
    expect_equal(result.marginals.end, expected.marginals.end);
    EXPECT_EQ(best_path(s), best_path_by_enumeration(s));
  }
}

TEST(CrfOracle, OfEqualPathsTheLastLabelIsTheLowest) {
  CrfSequence s{3, std::vector<double>(9, 0.0), std::vector<double>(9, 0.0), {0, 0, 0}, {0, 0, 0}};
  EXPECT_EQ(best_path(s), (std::vector<int>{0, 0, 0}));
  s.transitions[1 * 3 + 0] = s.transitions[0 * 3 + 1] = 1;  // 0 1 0 and 1 0 1 are both worth 2
  EXPECT_EQ(best_path(s), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(best_path_by_enumeration(s), (std::vector<int>{0, 1, 0}));
}

TEST(CrfOracle, MarginalsAreTheGradientOfLogZ) {
  RandomValues random(4);
  for (int trial = 0; trial < 5; ++trial) {
    CrfSequence s = draw(random, random.integer(1, 6), random.integer(1, 5));
    const CrfResult result = crf(s);
    const auto log_z = [&] { return crf(s).log_z; };
    expect_gradient("emissions", s.emissions, result.marginals.emissions, log_z, random);
    expect_gradient("transitions", s.transitions, result.marginals.transitions, log_z, random);
    expect_gradient("start", s.start, result.marginals.start, log_z, random);
    expect_gradient("end", s.end, result.marginals.end, log_z, random);
  }
}

}  // namespace
}  // namespace sluice::oracle
