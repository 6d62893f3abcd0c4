#include "kernels/optimizer/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/optimizer/optimizer.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::optimizer {
namespace {

using testing::DType;
using testing::random_values;
using testing::same_bits;

class LossScaleTest : public testing::OnDevice {
 protected:
  static constexpr std::int64_t kCount = 20011;

  struct Stepped {
    double sum;
    std::vector<float> adam, sgd;
  };

  /// Both optimisers' parameters after a step on gradients that carry `scale`, or none if it is 0.
  Stepped step(std::vector<float> gradients, double scale, double skipped, double max_norm,
               int step) {
    for (float& g : gradients) g *= static_cast<float>(scale > 0 ? scale : 1);
    const Tensor loss_scale = scale > 0 ? put(std::vector<double>{scale, 0, skipped}) : Tensor();
    SumOfSquaresArgs norm;
    norm.gradients = put(gradients);
    norm.partials = poisoned(DType::kFloat64, {partial_count(kCount)});
    norm.sum = poisoned(DType::kFloat64, {1});
    norm.loss_scale = loss_scale;
    sum_of_squares(context_, norm);
    const std::vector<float> ones(kCount, 1.0f), zeros(kCount, 0.0f);
    AdamArgs adam;
    adam.parameters = put(ones);
    adam.gradients = norm.gradients;
    adam.first_moment = put(zeros);
    adam.second_moment = put(zeros);
    adam.clipping = {norm.sum, max_norm, loss_scale};
    adam.step = put_number(step);
    adam.learning_rate = put_number(0.01);
    adam_step(context_, adam);
    SgdArgs sgd;
    sgd.parameters = put(ones);
    sgd.gradients = norm.gradients;
    sgd.clipping = adam.clipping;
    sgd.learning_rate = adam.learning_rate;
    sgd_step(context_, sgd);
    return {get_scalar<double>(norm.sum), get<float>(adam.parameters), get<float>(sgd.parameters)};
  }

  std::mt19937_64 engine_{19};
};

// A scale is a power of two, so it leaves no trace in a bit.
TEST_P(LossScaleTest, GradientsAreUsedWithoutIt) {
  const auto gradients = random_values<float>(engine_, kCount);
  for (const double max_norm : {0.0, 5.0, 500.0}) {
    const Stepped bare = step(gradients, 0, 0, max_norm, 3);
    for (const double scale : {1.0, 65536.0, 0x1p80}) {
      const Stepped scaled = step(gradients, scale, 0, max_norm, 3);
      EXPECT_EQ(scaled.sum, bare.sum);
      EXPECT_TRUE(same_bits(scaled.adam, bare.adam));
      EXPECT_TRUE(same_bits(scaled.sgd, bare.sgd));
    }
  }
}

TEST_P(LossScaleTest, SkippedStepsDoNotCount) {
  const auto gradients = random_values<float>(engine_, kCount);
  const Stepped third = step(gradients, 8, 0, 1, 3), eighth = step(gradients, 8, 5, 1, 8);
  EXPECT_TRUE(same_bits(third.adam, eighth.adam));
  EXPECT_FALSE(same_bits(third.adam, step(gradients, 8, 0, 1, 8).adam));
}

TEST_P(LossScaleTest, HalvesAtABadStepAndDoublesAfterManyGoodOnes) {
  const double bad = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor numbers = put(std::vector<double>{1024, 0, 0});
  const auto after = [&](double sum_of_squares) {
    update_loss_scale(context_, {numbers, put_number(sum_of_squares), 3});
    return get<double>(numbers);
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(after(2.5), (Numbers{1024, 1, 0}));
  EXPECT_EQ(after(0), (Numbers{1024, 2, 0}));
  EXPECT_EQ(after(bad), (Numbers{512, 0, 1}));
  EXPECT_EQ(after(nan), (Numbers{256, 0, 2}));
  EXPECT_EQ(after(1), (Numbers{256, 1, 2}));
  EXPECT_EQ(after(1), (Numbers{256, 2, 2}));
  EXPECT_EQ(after(1), (Numbers{512, 0, 2}));
  EXPECT_EQ(after(1), (Numbers{512, 1, 2}));
}

TEST_P(LossScaleTest, RefusesBadArguments) {
  const Tensor numbers = poisoned(DType::kFloat64, {kLossScaleNumbers});
  const Tensor sum = poisoned(DType::kFloat64, {1});
  EXPECT_THROW(update_loss_scale(context_, {sum, sum}), Error);
  EXPECT_THROW(update_loss_scale(context_, {numbers, numbers}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, LossScaleTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::optimizer
