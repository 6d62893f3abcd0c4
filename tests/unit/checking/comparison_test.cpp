#include "checking/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checking/tolerance.h"
#include "unit/checking/layers.h"

namespace sluice::checking {
namespace {

constexpr double kTolerance = 1e-3;

class ComparisonTest : public ::testing::Test {
 protected:
  ComparisonTest() : seed_(fresh_seed()), engine_(seed_) {
    RecordProperty("seed", std::to_string(seed_));
  }
  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(below));
  }
  LayerCheck compare(const LayerValues& value, const LayerValues& reference) const {
    Comparison comparison([](const LayerValues&) { return kTolerance; });
    comparison.add(value, reference, in_order(value));
    return comparison.layers().at(0);
  }

  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

TEST_F(ComparisonTest, EqualNumbersAreIdenticalAndPaddingIsPassedOver) {
  SCOPED_TRACE(seed_);
  const LayerValues layer = random_layer(engine_, 1 + draw(9), 1 + draw(5), 1 + draw(8));
  LayerValues other = layer;
  // Padding that is a number on one side is no difference.
  for (float& value : other.values) value = std::isnan(value) ? 5.0f : value;
  const LayerCheck check = compare(layer, other);
  EXPECT_EQ(check.largest, 0);
  EXPECT_EQ(check.mean, 0);
  EXPECT_FALSE(check.largest_at);
  EXPECT_FALSE(check.differs());
  std::int64_t numbers = 0;
  for (const std::int32_t length : layer.lengths) numbers += length * layer.width;
  EXPECT_EQ(check.values, numbers);
}

TEST_F(ComparisonTest, NamesThePlantedStepRowAndUnit) {
  SCOPED_TRACE(seed_);
  for (int round = 0; round < 50; ++round) {
    LayerValues value = random_layer(engine_, 2 + draw(9), 1 + draw(5), 1 + draw(8));
    const LayerValues reference = value;
    const std::int64_t step = draw(value.steps), unit = draw(value.width);
    // Row 0 has all steps.
    number(value, step, 0, unit) += 1.0f;
    const LayerCheck check = compare(value, reference);
    ASSERT_TRUE(check.first && check.largest_at);
    EXPECT_EQ(check.first->step, step);
    EXPECT_EQ(check.first->row, 0);
    EXPECT_EQ(check.first->unit, unit);
    EXPECT_EQ(check.first->value, number(value, step, 0, unit));
    EXPECT_EQ(check.first->reference, reference.at(step, 0, unit));
    EXPECT_EQ(check.beyond, 1);
    EXPECT_NEAR(check.largest, 1, 1e-6);
    EXPECT_NEAR(check.mean, 1 / static_cast<double>(check.values), 1e-6);
  }
}

TEST_F(ComparisonTest, TellsTheLargestFromTheFirst) {
  SCOPED_TRACE(seed_);
  LayerValues value = random_layer(engine_, 6, 1, 4);
  const LayerValues reference = value;
  number(value, 2, 0, 3) += 0.5f;
  number(value, 5, 0, 1) += 2.0f;
  const LayerCheck check = compare(value, reference);
  EXPECT_EQ(check.first->step, 2);
  EXPECT_EQ(check.first->unit, 3);
  EXPECT_EQ(check.largest_at->step, 5);
  EXPECT_EQ(check.largest_at->unit, 1);
  EXPECT_EQ(check.beyond, 2);
}

TEST_F(ComparisonTest, CountsBackwardDirectionsFromTheEnd) {
  SCOPED_TRACE(seed_);
  LayerValues value = random_layer(engine_, 7, 1, 6, 2);
  const LayerValues reference = value;
  // The backward direction goes wrong at step 5, its second, and stays so.
  for (std::int64_t step = 0; step <= 5; ++step) number(value, step, 0, 4) += 1.0f;
  EXPECT_EQ(compare(value, reference).first->step, 5);
  // The forward one at its first.
  number(value, 0, 0, 1) += 1.0f;
  EXPECT_EQ(compare(value, reference).first->unit, 1);
}

TEST_F(ComparisonTest, WhatIsNotFiniteOnOneSideDiffers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float odd[] = {NAN, kInfinity, -kInfinity};
  SCOPED_TRACE(seed_);
  for (const float mine : odd) {
    LayerValues value = random_layer(engine_, 3, 1, 2);
    LayerValues reference = value;
    number(value, 1, 0, 1) = mine;
    for (const auto& [one, other] : {std::pair{&value, &reference}, {&reference, &value}}) {
      const LayerCheck check = compare(*one, *other);
      EXPECT_TRUE(std::isinf(check.largest));
      EXPECT_EQ(check.beyond, 1);
      EXPECT_EQ(check.first->step, 1);
      EXPECT_EQ(check.first->unit, 1);
      EXPECT_TRUE(std::isfinite(check.mean) && std::isfinite(check.scale));
    }
    // The same on both sides is equal.
    number(reference, 1, 0, 1) = mine;
    EXPECT_FALSE(compare(value, reference).differs());
  }
  LayerValues value = random_layer(engine_, 3, 1, 2);
  LayerValues reference = value;
  number(value, 2, 0, 0) = kInfinity;
  number(reference, 2, 0, 0) = -kInfinity;
  EXPECT_TRUE(compare(value, reference).differs());
}

TEST_F(ComparisonTest, BoundIsAShareOfTheNumberAndOfItsLayer) {
  LayerValues reference;
  reference.name = "output";
  reference.steps = reference.rows = 1;
  reference.width = 2;
  reference.lengths = {1};
  reference.values = {3, -4};  // the root mean square is sqrt(12.5)
  LayerValues value = reference;
  const double bound = kTolerance * (std::sqrt(12.5) + 4);
  value.values[1] = static_cast<float>(-4 + 0.99 * bound);
  EXPECT_FALSE(compare(value, reference).differs());
  value.values[1] = static_cast<float>(-4 + 1.01 * bound);
  EXPECT_TRUE(compare(value, reference).differs());
}

TEST_F(ComparisonTest, AddsUpBatchesByTheirInputs) {
  SCOPED_TRACE(seed_);
  // Two batches of the inputs 1, 3 and 2, 0; what is planted in the second comes earlier.
  LayerValues first = random_layer(engine_, 5, 2, 3), second = random_layer(engine_, 4, 2, 3);
  first.lengths = {5, 5};
  second.lengths = {4, 4};
  for (LayerValues* layer : {&first, &second}) {
    for (float& value : layer->values) value = std::isnan(value) ? 0.25f : value;
  }
  LayerValues one = first, two = second;
  number(one, 3, 1, 2) += 1.0f;
  number(two, 3, 1, 0) += 1.0f;
  Comparison comparison([](const LayerValues&) { return kTolerance; });
  comparison.add(one, first, std::vector<std::int64_t>{1, 3});
  comparison.add(two, second, std::vector<std::int64_t>{2, 0});
  const LayerCheck check = comparison.layers().at(0);
  EXPECT_EQ(check.beyond, 2);
  EXPECT_EQ(check.values, 54);
  EXPECT_EQ(check.first->step, 3);
  EXPECT_EQ(check.first->row, 0);
  EXPECT_EQ(check.first->unit, 0);
}

TEST(ToleranceTest, FollowsThePrecisionsAndTheLayersBelow) {
  const auto of = [](const char* name) { return rounding_of(runtime::Precision::parse(name)); };
  const auto tolerance = [&](const char* one, const char* other, std::int64_t sums) {
    return tolerance_of(of(one), of(other), sums);
  };
  EXPECT_LT(tolerance("float32", "float32", 1), 1e-4);
  EXPECT_EQ(tolerance("float32", "float32", 4), 2 * tolerance("float32", "float32", 1));
  double before = 0;
  for (const char* precision : {"float32", "tf32", "bfloat16", "int8"}) {
    const double now = tolerance("float32", precision, 2);
    EXPECT_GT(now, before) << precision;
    EXPECT_EQ(now, tolerance(precision, "float32", 2)) << precision;
    before = now;
  }
  EXPECT_EQ(tolerance("float32", "float16", 2), tolerance("float32", "tf32", 2));
  // Inputs are rounded once, and not at all where they are stored alike.
  EXPECT_LT(tolerance("float32", "int8", 0), 1e-6);
  EXPECT_NEAR(tolerance("float32", "bfloat16", 0), 1.0 / 256, 1e-6);
}

}  // namespace
}  // namespace sluice::checking
