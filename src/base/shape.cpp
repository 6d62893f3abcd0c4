#include "base/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace sluice::base {

std::size_t checked_mul(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  SLUICE_CHECK(!__builtin_mul_overflow(a, b, &product), "size {} x {} overflows", a, b);
  return product;
}

std::size_t checked_add(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  SLUICE_CHECK(!__builtin_add_overflow(a, b, &sum), "size {} + {} overflows", a, b);
  return sum;
}

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(sizes.size()) {
  SLUICE_CHECK(sizes.size() <= kMaxRank, "a tensor has at most {} axes, not {}", kMaxRank,
               sizes.size());
  for (const std::int64_t size : sizes) {
    SLUICE_CHECK(size >= 0, "axis of negative size {}", size);
  }
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
}

std::int64_t Shape::element_count() const {
  std::size_t count = 1;
  for (const std::int64_t size : *this) count = checked_mul(count, static_cast<std::size_t>(size));
  SLUICE_CHECK(count <= INT64_MAX, "shape {} has too many elements", to_string());
  return static_cast<std::int64_t>(count);
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(begin(), end(), ", "));
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

}  // namespace sluice::base
