#include "runtime/tensor.h"

#include <algorithm>
#include <span>

namespace sluice::runtime {

Tensor::Tensor(void* data, DType dtype, const Shape& shape)
    : data_(data), dtype_(dtype), shape_(shape) {
  std::int64_t stride = 1;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    strides_[axis] = stride;
    stride *= shape[axis];
  }
}

Tensor::Tensor(void* data, DType dtype, const Shape& shape, std::span<const std::int64_t> strides)
    : Tensor(data, dtype, shape) {
  SLUICE_CHECK(strides.size() == shape.rank(), "{} strides given for the {} axes of {}",
               strides.size(), shape.rank(), shape.to_string());
  std::copy(strides.begin(), strides.end(), strides_.begin());
}

std::size_t Tensor::byte_size() const {
  return base::checked_mul(static_cast<std::size_t>(element_count()), base::size_of(dtype_));
}

bool Tensor::is_contiguous() const {
  std::int64_t stride = 1;
  for (std::size_t axis = rank(); axis-- > 0;) {
    if (shape_[axis] != 1 && strides_[axis] != stride) return false;
    stride *= shape_[axis];
  }
  return true;
}

Tensor Tensor::slice(std::size_t axis, std::int64_t begin, std::int64_t end) const {
  SLUICE_ASSERT(axis < rank() && 0 <= begin && begin <= end && end <= shape_[axis]);
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::copy(shape_.begin(), shape_.end(), sizes.begin());
  sizes[axis] = end - begin;
  Tensor part = *this;
  part.shape_ = Shape(std::span(sizes).first(rank()));
  part.data_ = static_cast<std::byte*>(data_) +
               begin * strides_[axis] * static_cast<std::int64_t>(base::size_of(dtype_));
  return part;
}

Tensor Tensor::select(std::size_t axis, std::int64_t index) const {
  Tensor part = slice(axis, index, index + 1);
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  const auto* const dropped = shape_.begin() + axis;
  std::copy(dropped + 1, shape_.end(), std::copy(shape_.begin(), dropped, sizes.begin()));
  part.shape_ = Shape(std::span(sizes).first(rank() - 1));
  for (std::size_t i = axis; i + 1 < rank(); ++i) part.strides_[i] = strides_[i + 1];
  return part;
}

Tensor Tensor::reshape(const Shape& shape) const {
  SLUICE_ASSERT(is_contiguous() && shape.element_count() == element_count());
  return Tensor(data_, dtype_, shape);
}

}  // namespace sluice::runtime
