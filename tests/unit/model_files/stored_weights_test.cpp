#include "model_files/stored_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "unit/support/temporary_folder.h"

namespace sluice::model_files {
namespace {

using io::Container;
using io::DType;
using io::HostTensor;
using io::Shape;

std::vector<float> numbers(std::int64_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

TEST(StoredWeights, EachRowHasAScaleOfItsOwn) {
  std::vector<float> values = numbers(5 * 7);
  for (std::size_t i = 7; i < 14; ++i) values[i] *= 1e-4f;
  std::fill(values.begin() + 14, values.begin() + 21, 0.0f);
  Container container;
  add_stored(container, "w", {5, 7}, values, DType::kInt8);
  EXPECT_EQ(container.revision, 2);
  const auto stored = stored_values(container, "w", {5, 7});
  for (std::size_t row = 0; row < 5; ++row) {
    float most = 0;
    for (std::size_t i = 0; i < 7; ++i) most = std::max(most, std::abs(values[row * 7 + i]));
    for (std::size_t i = 0; i < 7; ++i) {
      // Half a step, and float32's rounding.
      ASSERT_NEAR(stored[row * 7 + i], values[row * 7 + i], most / 127 * 0.50001f) << row;
    }
  }
}

// What has once been rounded is what it is, so that who packs it anew from float32 finds the same
// integers.
TEST(StoredWeights, RoundingTwiceIsRoundingOnce) {
  Container once, twice;
  for (const double clip : {1.0, 0.8}) {
    const std::string name = clip == 1 ? "a" : "b";
    add_stored(once, name, {9, 50}, numbers(450), DType::kInt8, clip);
    add_stored(twice, name, {9, 50}, stored_values(once, name, {9, 50}), DType::kInt8);
    EXPECT_EQ(once.tensors.find(name)->data, twice.tensors.find(name)->data);
  }
}

TEST(StoredWeights, AClippedRangeEndsAtTheLargestInteger) {
  Container container;
  add_stored(container, "w", {1, 4}, std::vector<float>{1, -0.5f, 0.25f, -1}, DType::kInt8, 0.5);
  const auto integers = container.tensors.find("w")->values<std::int8_t>();
  EXPECT_EQ(std::vector<int>(integers.begin(), integers.end()),
            (std::vector<int>{127, -127, 64, -127}));
}

TEST(StoredWeights, GoThroughAFile) {
  const testing::TemporaryFolder folder;
  Container container;
  container.text = "{}";
  add_stored(container, "eight", {3, 4}, numbers(12), DType::kInt8);
  add_stored(container, "sixteen", {3, 4}, numbers(12), DType::kBFloat16);
  add_stored(container, "whole", {12}, numbers(12), DType::kFloat32);
  io::write_model(folder / "m", container);
  EXPECT_EQ(io::narrowest_dtype(folder / "m"), DType::kInt8);
  const Container read = io::read_model(folder / "m");
  EXPECT_EQ(read.revision, 2);
  EXPECT_EQ(stored_dtype(read), DType::kInt8);
  EXPECT_EQ(stored_values(read, "eight", {3, 4}), stored_values(container, "eight", {3, 4}));
  const auto sixteen = stored_values(read, "sixteen", {3, 4});
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(sixteen[i], static_cast<float>(base::BFloat16(numbers(12)[i])));
  }
  EXPECT_EQ(stored_values(read, "whole", {12}), numbers(12));
}

// A program that knows float32 alone must say that the file is too new, not that it is damaged.
TEST(StoredWeights, DontGoIntoAFileOfTheFirstRevision) {
  const testing::TemporaryFolder folder;
  Container container;
  add_stored(container, "w", {3, 4}, numbers(12), DType::kInt8);
  container.revision = 1;
  EXPECT_THROW(io::write_model(folder / "m", container), Error);
  const Error error = testing::error_of([&] { stored_values(container, "w", {3, 4}); });
  EXPECT_NE(std::string(error.what()).find("int8 instead of float32"), std::string::npos)
      << error.what();
}

TEST(StoredWeights, RefuseWhatIsDamaged) {
  const auto refused = [](const Container& container, const Shape& shape, const char* says) {
    const Error error = testing::error_of([&] { stored_values(container, "w", shape); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  };
  const auto with = [](std::vector<std::int8_t> integers, const Shape& shape,
                       std::vector<float> scales) {
    Container container;
    container.revision = 2;
    container.tensors.add("w", HostTensor::copy_of<std::int8_t>(integers, shape));
    if (!scales.empty()) {
      container.tensors.add("w.scale", HostTensor::copy_of<float>(
                                           scales, {static_cast<std::int64_t>(scales.size())}));
    }
    return container;
  };
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  refused(with({1, 2, 3, 4}, {2, 2}, {}), {2, 2}, "lacks the tensor 'w.scale' of shape [2]");
  refused(with({1, 2, 3, 4}, {2, 2}, {1, 1, 1}), {2, 2}, "has shape [3]");
  refused(with({1, 2, 3, 4}, {2, 2}, {1, 1}), {4, 1}, "asks for [4, 1]");
  refused(with({1, -128, 3, 4}, {2, 2}, {1, 1}), {2, 2}, "row 0 of 'w' holds -128");
  refused(with({1, 2, 3, 4}, {2, 2}, {1, nan}), {2, 2}, "row 1 of 'w'");
  refused(with({1, 2, 3, 4}, {2, 2}, {infinite, 1}), {2, 2}, "row 0 of 'w'");
  refused(with({1, 2, 3, 4}, {2, 2}, {1, -1}), {2, 2}, "with the scale -1");
  refused(with({1, 2, 3, 4}, {4}, {1, 1, 1, 1}), {4}, "only matrices");
}

}  // namespace
}  // namespace sluice::model_files
