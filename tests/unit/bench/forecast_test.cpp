#include "bench/scaling/forecast.h"

#include <gtest/gtest.h>

namespace sluice::bench::scaling {
namespace {

/// Two devices that sum 400 MB in 2 ms: a ring moves each byte once at 200 GB/s.
const Measured kTwo{.ranks = 2, .apart = 10, .together = 11, .all_reduce = 2, .bytes = 400e6};
const Network kNetwork{.host_devices = 8, .gigabytes = 50, .microseconds = 10};

TEST(Forecast, GivesBackWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(all_reduce_forecast(kTwo, kNetwork, 2, Algorithm::kRing), 2);
  EXPECT_DOUBLE_EQ(step_forecast(kTwo, kNetwork, 2, Algorithm::kRing), 11);
}

TEST(Forecast, HasTheBandwidthOfAHostWithinIt) {
  // 2 * 7 / 8 of the bytes at 200 GB/s.
  EXPECT_DOUBLE_EQ(all_reduce_forecast(kTwo, kNetwork, 8, Algorithm::kRing), 3.5);
  EXPECT_DOUBLE_EQ(all_reduce_forecast(kTwo, kNetwork, 8, Algorithm::kTree), 3.5);
  // Half of it is hidden, or need not travel.
  EXPECT_DOUBLE_EQ(step_forecast(kTwo, kNetwork, 8, Algorithm::kRing), 11.75);
}

TEST(Forecast, MovesSharesBetweenHosts) {
  // A share is 50 MB, 1 ms at 50 GB/s; 8 hosts in a ring send 2 * 7 / 8 of it in 14 messages.
  EXPECT_NEAR(all_reduce_forecast(kTwo, kNetwork, 64, Algorithm::kRing), 3.5 + 1.75 + 0.14, 1e-9);
  // Up and down a tree of three levels.
  EXPECT_NEAR(all_reduce_forecast(kTwo, kNetwork, 64, Algorithm::kTree), 3.5 + 2 + 0.06, 1e-9);
  EXPECT_LT(all_reduce_forecast(kTwo, kNetwork, 4096, Algorithm::kTree),
            all_reduce_forecast(kTwo, kNetwork, 4096, Algorithm::kRing));
}

}  // namespace
}  // namespace sluice::bench::scaling
