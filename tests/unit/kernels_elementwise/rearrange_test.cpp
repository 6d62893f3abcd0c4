#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::elementwise {
namespace {

using base::DType;
using base::Shape;
using testing::message_of;
using Bytes = std::vector<std::uint8_t>;

/// Where a tensor [n, rows, columns] lies in its memory, in elements.
struct Place {
  std::int64_t first, outer, row;

  std::int64_t of(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return first + i * outer + j * row + k;
  }
};

struct Case {
  DType dtype;
  std::int64_t n, rows, columns;
  Place source, target;
};

class Rearrange : public testing::OnDevice {
 protected:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  /// Without gaps, or with gaps behind rows and behind what holds them; axes swapped or not.
  Place draw_place(std::int64_t n, std::int64_t rows, std::int64_t columns, std::int64_t unit) {
    const bool swapped = draw(0, 1) == 0, gaps = draw(0, 1) == 0;
    const std::int64_t inner = columns + (gaps ? unit * draw(0, 5) : 0);
    const std::int64_t outer = (swapped ? n : rows) * inner + (gaps ? unit * draw(0, 5) : 0);
    const std::int64_t first = draw(0, 1) == 0 ? 0 : unit * draw(1, 9);
    return swapped ? Place{first, inner, outer} : Place{first, outer, inner};
  }

  static std::int64_t elements(const Case& c, const Place& place) {
    return place.of(c.n - 1, c.rows - 1, c.columns - 1) + 1;
  }
  static Tensor view(const Case& c, const Place& place, const Tensor& memory) {
    const auto size = static_cast<std::int64_t>(base::size_of(c.dtype));
    const std::array strides{place.outer, place.row, std::int64_t{1}};
    return Tensor(static_cast<std::byte*>(memory.data()) + place.first * size, c.dtype,
                  {c.n, c.rows, c.columns}, strides);
  }
  Bytes random_bytes(std::int64_t count) {
    Bytes bytes(static_cast<std::size_t>(count));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_());
    return bytes;
  }

  /// Against a loop; elements are moved whatever their bits, and nothing else is written.
  void check(const Case& c) {
    const auto size = static_cast<std::int64_t>(base::size_of(c.dtype));
    const Bytes from = random_bytes(elements(c, c.source) * size);
    Bytes expected = random_bytes((elements(c, c.target) + 7) * size);
    const Tensor source = put(from), target = put(expected);
    rearrange(context_, view(c, c.source, source), view(c, c.target, target));
    for (std::int64_t i = 0; i < c.n; ++i) {
      for (std::int64_t j = 0; j < c.rows; ++j) {
        for (std::int64_t k = 0; k < c.columns * size; ++k) {
          expected[static_cast<std::size_t>(c.target.of(i, j, 0) * size + k)] =
              from[static_cast<std::size_t>(c.source.of(i, j, 0) * size + k)];
        }
      }
    }
    EXPECT_EQ(get<std::uint8_t>(target), expected)
        << fmt::format("{} [{}, {}, {}] from {}, {}, {} to {}, {}, {}", base::name_of(c.dtype), c.n,
                       c.rows, c.columns, c.source.first, c.source.outer, c.source.row,
                       c.target.first, c.target.outer, c.target.row);
    EXPECT_EQ(get<std::uint8_t>(source), from);
    release_memory();
  }

  static constexpr std::array kDTypes{DType::kFloat64, DType::kFloat32, DType::kBFloat16,
                                      DType::kFloat16};
  const std::uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("seed {}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(Devices, Rearrange, testing::devices(), testing::device_name);

// Odd widths, starts and gaps, and those that are whole pieces of 16 bytes.
TEST_P(Rearrange, EqualsALoop) {
  for (const DType dtype : kDTypes) {
    for (int trial = 0; trial < 40; ++trial) {
      const std::int64_t unit = std::array{1, 2, 8}[static_cast<std::size_t>(draw(0, 2))];
      Case c{dtype, draw(1, 9), draw(1, 9), unit * draw(1, 20), {}, {}};
      c.source = draw_place(c.n, c.rows, c.columns, unit);
      c.target = draw_place(c.n, c.rows, c.columns, unit);
      check(c);
    }
  }
}

// More rows and columns than one block or thread takes at once.
TEST_P(Rearrange, MovesLargeTensors) {
  for (const DType dtype : kDTypes) {
    check({dtype, 61, 37, 129, {0, 37 * 129, 129}, {1, 129, 61 * 129}});
    check({dtype, 40, 3, 1032, {8, 1040, 40 * 1040}, {0, 3 * 1032, 1032}});
    check({dtype, 700, 50, 1, {0, 50, 1}, {3, 1, 701}});
  }
}

// The same row for all of an axis.
TEST_P(Rearrange, TakesASourceThatRepeats) {
  check({DType::kFloat32, 5, 4, 7, {0, 0, 7}, {0, 28, 7}});
  check({DType::kBFloat16, 5, 4, 8, {0, 8, 0}, {2, 32, 8}});
}

TEST_P(Rearrange, OfNothingIsNothing) {
  const Tensor target = put(std::vector<float>{1, 2, 3});
  for (const Shape& shape : {Shape{0, 3, 2}, Shape{3, 0, 2}, Shape{3, 2, 0}}) {
    rearrange(context_, Tensor(target.data(), DType::kFloat32, shape),
              Tensor(target.data(), DType::kFloat32, shape));
  }
  EXPECT_EQ(get<float>(target), (std::vector<float>{1, 2, 3}));
}

TEST_P(Rearrange, RefusesWhatDoesNotFit) {
  const Tensor a = poisoned(DType::kFloat32, {2, 3, 4}), b = poisoned(DType::kFloat32, {3, 2, 4});
  const auto refused = [&](const Tensor& source, const Tensor& target) {
    return message_of([&] { rearrange(context_, source, target); });
  };
  EXPECT_EQ(refused(a, b),
            "rearrange: source and target must have the same 3 axes, not [2, 3, 4] and [3, 2, 4]");
  const Tensor flat = poisoned(DType::kFloat32, {6, 4}),
               narrow = poisoned(DType::kFloat16, {2, 3, 4});
  EXPECT_NE(refused(flat, flat).find("the same 3 axes"), std::string::npos);
  EXPECT_NE(refused(a, narrow).find("float16"), std::string::npos);
  const Tensor tokens = poisoned(DType::kInt32, {2, 3, 4});
  EXPECT_NE(refused(tokens, tokens).find("int32"), std::string::npos);
  const std::array<std::int64_t, 3> apart{12, 1, 3};
  const Tensor scattered(b.data(), DType::kFloat32, {2, 3, 4}, apart);
  EXPECT_EQ(refused(scattered, a), "rearrange: columns must lie next to each other, not 3 apart");
  EXPECT_EQ(refused(a, scattered), "rearrange: columns must lie next to each other, not 3 apart");
  // A single column has no neighbour.
  const Tensor one(b.data(), DType::kFloat32, {2, 3, 1}, apart);
  EXPECT_EQ(refused(one, a.slice(2, 0, 1)), "");
}

TEST_P(Rearrange, TensorsTakeOneStrideAnAxis) {
  const Tensor a = poisoned(DType::kFloat32, {2, 3, 4});
  const std::array<std::int64_t, 2> two{4, 1};
  EXPECT_EQ(message_of([&] {
              Tensor(a.data(), DType::kFloat32, {2, 3, 4}, two);
            }),
            "2 strides given for the 3 axes of [2, 3, 4]");
  const std::array<std::int64_t, 3> own{12, 4, 1}, swapped{4, 8, 1};
  EXPECT_TRUE(Tensor(a.data(), DType::kFloat32, {2, 3, 4}, own).is_contiguous());
  const Tensor strided(a.data(), DType::kFloat32, {3, 2, 4}, swapped);
  EXPECT_FALSE(strided.is_contiguous());
  EXPECT_EQ(strided.stride(1), 8);
}

}  // namespace
}  // namespace sluice::kernels::elementwise
