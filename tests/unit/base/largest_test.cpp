#include "base/largest.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(LargestThatFits, IsFoundWhereverItLies) {
  for (std::int64_t most = 0; most <= 20; ++most) {
    for (std::int64_t limit = 0; limit <= most; ++limit) {
      const auto fits = [&](std::int64_t n) {
        EXPECT_GE(n, 1);
        EXPECT_LE(n, most);
        return n <= limit;
      };
      EXPECT_EQ(largest_that_fits(most, fits), limit) << "of " << most;
    }
  }
}

}  // namespace
}  // namespace sluice::base
