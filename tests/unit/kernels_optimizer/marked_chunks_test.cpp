#include "kernels/optimizer/marked_chunks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "unit/support/on_device.h"

namespace sluice::kernels::optimizer {
namespace {

class MarkedChunksTest : public testing::OnDevice {
 protected:
  struct Listed {
    std::vector<std::int32_t> chunks;
    std::int32_t count;
  };

  /// Marks of each kind, as many of the first as a coin says.
  std::vector<std::uint8_t> draw(std::size_t count, double marked) {
    std::bernoulli_distribution is_marked(marked);
    std::vector<std::uint8_t> marks(count);
    for (std::uint8_t& mark : marks) {
      mark = is_marked(random_) ? kMarked : random_() % 4 == 0 ? kAlwaysMarked : kUnmarked;
    }
    return marks;
  }

  MarkedChunks list(const std::vector<std::uint8_t>& marks, std::int64_t capacity) {
    const auto count = static_cast<std::int64_t>(marks.size());
    MarkedChunks list{poisoned(base::DType::kInt32, {capacity}),
                      poisoned(base::DType::kInt32, {1})};
    const auto bytes = static_cast<std::int64_t>(list_marked_bytes(context_, count));
    const Tensor workspace = poisoned(base::DType::kUInt8, {std::max<std::int64_t>(bytes, 1)});
    list_marked(context_, {put(marks), list, workspace.data()});
    return list;
  }

  static std::vector<std::int32_t> marked_in(const std::vector<std::uint8_t>& marks) {
    std::vector<std::int32_t> chunks;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (marks[i] == kMarked) chunks.push_back(static_cast<std::int32_t>(i));
    }
    return chunks;
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
};

TEST_P(MarkedChunksTest, AreListedInRisingOrder) {
  SCOPED_TRACE(seed_);
  for (const std::size_t count : {1u, 31u, 4096u, 4097u, 70'001u}) {
    for (const double marked : {0.0, 0.1, 1.0}) {
      const auto marks = draw(count, marked);
      const auto expected = marked_in(marks);
      const MarkedChunks found = list(marks, static_cast<std::int64_t>(count));
      ASSERT_EQ(get<std::int32_t>(found.count)[0], std::ssize(expected)) << count;
      auto chunks = get<std::int32_t>(found.chunks);
      chunks.resize(expected.size());
      EXPECT_EQ(chunks, expected) << count << ' ' << marked;
    }
  }
}

/// Packed chunks hold what gradients do, rounded once, and zeros behind; unpacked, others stay.
TEST_P(MarkedChunksTest, TravelAsTheyAre) {
  SCOPED_TRACE(seed_);
  const auto check = [&](auto type, std::int64_t elements, std::int64_t spare) {
    using T = decltype(type);
    const auto marks = draw(static_cast<std::size_t>(mark_count(elements)), 0.3);
    const auto expected = marked_in(marks);
    const std::int64_t capacity = std::ssize(expected) + spare;
    const MarkedChunks found = list(marks, capacity);
    std::normal_distribution<float> draw_value(0, 3);
    std::vector<float> gradients(static_cast<std::size_t>(elements));
    for (float& value : gradients) value = draw_value(random_);
    const Tensor packed = poisoned(base::dtype_of<T>(), {capacity * kElementsPerMark});
    pack_chunks(context_, {found, packed, put(gradients)});
    const auto values = get<T>(packed);
    const float nothing = -77;
    const Tensor others = put(std::vector<float>(gradients.size(), nothing));
    unpack_chunks(context_, {found, packed, others});
    const auto unpacked = get<float>(others);
    std::vector<float> wanted(gradients.size(), nothing);
    for (std::int64_t i = 0; i < capacity * kElementsPerMark; ++i) {
      const std::int64_t chunk = i / kElementsPerMark;
      float value = 0;
      if (chunk < std::ssize(expected)) {
        const auto from = static_cast<std::size_t>(
            expected[static_cast<std::size_t>(chunk)] * kElementsPerMark + i % kElementsPerMark);
        if (from < gradients.size()) {
          value = static_cast<float>(T(gradients[from]));
          wanted[from] = value;
        }
      }
      ASSERT_EQ(static_cast<float>(values[static_cast<std::size_t>(i)]), value) << i;
    }
    EXPECT_EQ(unpacked, wanted);
  };
  for (const std::int64_t elements : {1, 128, 129, 5000, 300'007}) {
    for (const std::int64_t spare : {0, 3}) {
      check(float{}, elements, spare);
      check(base::BFloat16{}, elements, spare);
    }
  }
}

/// A gradient that has no place must not be lost in silence.
TEST_P(MarkedChunksTest, TooManyShow) {
  const std::vector<std::uint8_t> marks(9, kMarked);
  const MarkedChunks found = list(marks, 4);
  EXPECT_EQ(get<std::int32_t>(found.count)[0], 9);
  EXPECT_EQ(get<std::int32_t>(found.chunks), (std::vector<std::int32_t>{0, 1, 2, 3}));
  const Tensor packed = poisoned(base::DType::kFloat32, {4 * kElementsPerMark});
  const PackedChunksArgs args{found, packed, put(std::vector<float>(9 * kElementsPerMark, 1.0f))};
  pack_chunks(context_, args);
  const auto values = get<float>(packed);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(values.back(), 1);
  unpack_chunks(context_, args);
  EXPECT_EQ(get<float>(args.gradients).back(), 1);
}

TEST_P(MarkedChunksTest, RefuseTensorsThatDoNotFit) {
  const MarkedChunks found = list(std::vector<std::uint8_t>(9, kMarked), 4);
  const Tensor gradients = put(std::vector<float>(300, 1.0f));
  EXPECT_THROW(pack_chunks(context_, {found, gradients, gradients}), Error);
  EXPECT_THROW(unpack_chunks(context_, {found, put(std::vector<double>(512)), gradients}), Error);
  EXPECT_THROW(list_marked(context_, {gradients, found, nullptr}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, MarkedChunksTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::optimizer
