#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::bench {
namespace {

TEST(Statistics, TakesTheMedian) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 100}), 3.5);
}

TEST(Statistics, ComparesWithTheFastestPeerOfEachTurn) {
  const std::vector<double> best = best_of({{1, 1}, {4, 8}, {6, 2}}, {false, true, true});
  EXPECT_EQ(best, (std::vector<double>{4, 2}));
  EXPECT_EQ(median_ratio(best, {2, 2}), 1.5);
  EXPECT_EQ(best_of({{1, 2}}, {false}),
            std::vector<double>(2, std::numeric_limits<double>::infinity()));
}

TEST(Statistics, PrintsMebibytes) {
  EXPECT_EQ(mebibytes(21504), "0.02");
  EXPECT_EQ(mebibytes(43001024), "41");
}

}  // namespace
}  // namespace sluice::bench
