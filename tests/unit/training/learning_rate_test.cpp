#include "training/learning_rate.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice::training {
namespace {

LearningRateConfig rate_config(std::string schedule, std::int64_t warmup) {
  LearningRateConfig config;
  config.learning_rate = 0.5;
  config.schedule = std::move(schedule);
  config.warmup_steps = warmup;
  config.plateau_factor = 0.25;
  config.plateau_patience = 2;
  config.min_learning_rate = 0.01;
  return config;
}

TEST(LearningRate, WarmsUpThenStays) {
  const LearningRate rate(rate_config("constant", 4));
  EXPECT_EQ(rate.at(1), 0.125);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_EQ(rate.at(1000), 0.5);
  EXPECT_EQ(LearningRate(rate_config("constant", 0)).at(1), 0.5);
}

TEST(LearningRate, FallsWithTheInverseRoot) {
  const LearningRate rate(rate_config("inverse_sqrt", 4));
  EXPECT_EQ(rate.at(2), 0.25);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_EQ(rate.at(16), 0.25);
}

TEST(LearningRate, FallsAlongACosine) {
  LearningRateConfig config = rate_config("cosine", 4);
  config.decay_steps = 12;
  config.min_learning_rate = 0.1;
  const LearningRate rate(config);
  EXPECT_EQ(rate.at(1), 0.125);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_NEAR(rate.at(8), 0.4, 1e-15);  // a third of the way, where the cosine is 1/2
  EXPECT_NEAR(rate.at(10), 0.3, 1e-15);
  EXPECT_NEAR(rate.at(12), 0.2, 1e-15);
  for (std::int64_t step = 5; step <= 16; ++step) EXPECT_LT(rate.at(step), rate.at(step - 1));
  EXPECT_EQ(rate.at(16), 0.1);
  EXPECT_EQ(rate.at(1000), 0.1);
}

TEST(LearningRate, FallsInSteps) {
  LearningRateConfig config = rate_config("step", 4);
  config.decay_steps = 3;
  config.decay_factor = 0.25;
  const LearningRate rate(config);
  EXPECT_EQ(rate.at(2), 0.25);
  EXPECT_EQ(rate.at(5), 0.5);
  EXPECT_EQ(rate.at(7), 0.5);
  EXPECT_EQ(rate.at(8), 0.125);
  EXPECT_EQ(rate.at(10), 0.125);
  EXPECT_EQ(rate.at(11), 0.03125);
  EXPECT_EQ(rate.at(14), 0.01);  // no lower than the least
  config.warmup_steps = 0;
  EXPECT_EQ(LearningRate(config).at(3), 0.5);
  EXPECT_EQ(LearningRate(config).at(4), 0.125);
}

TEST(LearningRate, PlateauLowersAfterPatienceAndKeepsTheFloor) {
  LearningRate rate(rate_config("plateau", 0));
  for (const double loss : {3.0, 2.0, 2.5}) rate.validated(loss);
  EXPECT_EQ(rate.at(9), 0.5);
  rate.validated(2.0);  // equal is no improvement
  EXPECT_EQ(rate.at(9), 0.125);
  rate.validated(1.0);
  for (int i = 0; i < 4; ++i) rate.validated(1.5);
  EXPECT_EQ(rate.at(9), 0.01);
}

TEST(LearningRate, RestoredStateGoesOnTheSame) {
  LearningRate one(rate_config("plateau", 3));
  one.validated(1.0 / 3);
  one.validated(0.5);
  LearningRate other(rate_config("plateau", 3));
  other.restore(one.state());
  one.validated(0.4);
  other.validated(0.4);
  EXPECT_EQ(one.state(), other.state());
  EXPECT_EQ(other.at(50), 0.125);
}

}  // namespace
}  // namespace sluice::training
