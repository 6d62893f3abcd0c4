#include "io/formats/strided_view.h"

#include <algorithm>
#include <cstring>

namespace sluice::io::formats {

bool StridedView::is_dense() const {
  std::int64_t wanted = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    if (sizes[axis] != 1 && strides[axis] != wanted) return false;
    wanted *= sizes[axis];
  }
  return true;
}

std::optional<std::uint64_t> extent_of(const StridedView& view) {
  if (view.sizes.size() != view.strides.size() || view.offset < 0) return std::nullopt;
  std::int64_t last = view.offset;
  bool is_empty = false;
  for (std::size_t axis = 0; axis < view.sizes.size(); ++axis) {
    const std::int64_t size = view.sizes[axis], stride = view.strides[axis];
    if (size < 0 || stride < 0) return std::nullopt;
    is_empty = is_empty || size == 0;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(size - 1, 0), stride, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(last) + 1;
}

std::vector<std::int64_t> row_major(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

std::vector<std::int64_t> column_major(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

void copy_dense(const StridedView& view, std::size_t element, std::span<const std::byte> buffer,
                std::span<std::byte> dense) {
  if (dense.empty()) return;
  auto from = static_cast<std::size_t>(view.offset) * element;
  if (view.is_dense()) {
    std::memcpy(dense.data(), buffer.data() + from, dense.size());
    return;
  }
  std::vector<std::int64_t> index(view.sizes.size());
  for (std::size_t to = 0; to < dense.size(); to += element) {
    std::memcpy(dense.data() + to, buffer.data() + from, element);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      const std::size_t step = static_cast<std::size_t>(view.strides[axis]) * element;
      from += step;
      if (++index[axis] < view.sizes[axis]) break;
      from -= step * static_cast<std::size_t>(view.sizes[axis]);
      index[axis] = 0;
    }
  }
}

}  // namespace sluice::io::formats
