#include "base/shape.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape shape{3, 4, 5};
  EXPECT_EQ(shape.element_count(), 60);
  EXPECT_EQ(shape.to_string(), "[3, 4, 5]");
  EXPECT_EQ(Shape{}.element_count(), 1);
  EXPECT_EQ((Shape{3, 0}.element_count()), 0);
  EXPECT_NE(shape, (Shape{3, 4}));
}

TEST(Shape, RefusesNegativeTooManyAndOverflow) {
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{INT64_MAX, 3}.element_count()), Error);
}

}  // namespace
}  // namespace sluice::base
