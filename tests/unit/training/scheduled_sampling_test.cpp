#include "training/scheduled_sampling.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::training {
namespace {

TEST(ScheduledSampling, RisesAsTheScheduleSays) {
  const ScheduledSampling linear({"linear", 200, 0.8});
  EXPECT_EQ(linear.at(1), 0);
  EXPECT_EQ(linear.at(51), 0.25);
  EXPECT_EQ(linear.at(161), 0.8);
  EXPECT_EQ(linear.at(1'000'000), 0.8);

  const ScheduledSampling exponential({"exponential", 100, 1});
  EXPECT_EQ(exponential.at(1), 0);
  EXPECT_NEAR(exponential.at(101), 1 - std::exp(-1.0), 1e-15);
  EXPECT_NEAR(exponential.at(251), 1 - std::pow(std::exp(-0.01), 250), 1e-13);

  const ScheduledSampling sigmoid({"inverse_sigmoid", 100, 1});
  for (const int i : {0, 100, 461, 1000}) {
    EXPECT_NEAR(sigmoid.at(i + 1), 1 - 100 / (100 + std::exp(i / 100.0)), 1e-13) << i;
  }
  EXPECT_EQ(sigmoid.at(1'000'000'000), 1);  // where exp(i / k) is infinite
}

TEST(ScheduledSampling, IsOffByDefault) {
  EXPECT_FALSE(ScheduledSampling().is_used());
  EXPECT_EQ(ScheduledSampling().at(77), 0);
  EXPECT_EQ(ScheduledSampling(TrainConfig().sampling).at(77), 0);
}

}  // namespace
}  // namespace sluice::training
