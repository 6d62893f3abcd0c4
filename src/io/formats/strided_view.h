#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::io::formats {

/// Where the elements of an array stand in a buffer. All numbers count elements.
struct StridedView {
  std::vector<std::int64_t> sizes;  ///< axes, outermost first
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;

  /// Whether the elements stand in row-major order without gaps.
  bool is_dense() const;
};

/// One more than the last element that the view refers to, 0 for an empty view; the buffer needs as
/// many. Empty if sizes and strides differ in number, if one is negative or if the sum overflows.
std::optional<std::uint64_t> extent_of(const StridedView& view);

/// The strides of a dense array, row-major or with the first axis innermost.
std::vector<std::int64_t> row_major(std::span<const std::int64_t> sizes);
std::vector<std::int64_t> column_major(std::span<const std::int64_t> sizes);

/// Copies the elements of `element` bytes each from `buffer` to `dense` in row-major order. The
/// caller has compared extent_of(view) with the buffer, and `dense` has just the view's elements.
void copy_dense(const StridedView& view, std::size_t element, std::span<const std::byte> buffer,
                std::span<std::byte> dense);

}  // namespace sluice::io::formats
