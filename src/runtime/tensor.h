#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace sluice::runtime {

using base::DType;
using base::Shape;

/// A non-owning view of device memory: pointer, dtype, shape and strides in elements (what DLPack
/// says). Copying a Tensor copies the view. Which device the memory belongs to is known by the
/// Context that a tensor is passed with. A default Tensor is absent: `if (!tensor)`.
class Tensor {
 public:
  Tensor() = default;
  /// A contiguous, row-major view.
  Tensor(void* data, DType dtype, const Shape& shape);
  /// The same with strides of the caller's, one an axis, in elements.
  Tensor(void* data, DType dtype, const Shape& shape, std::span<const std::int64_t> strides);

  explicit operator bool() const { return data_ != nullptr; }

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t rank() const { return shape_.rank(); }
  std::int64_t size(std::size_t axis) const { return shape_[axis]; }
  std::int64_t stride(std::size_t axis) const { return strides_[axis]; }
  std::int64_t element_count() const { return shape_.element_count(); }
  /// Bytes of a contiguous tensor of this shape.
  std::size_t byte_size() const;
  bool is_contiguous() const;

  /// The data as T*, checked against dtype. Only kernels may dereference it.
  template <typename T>
  T* data_as() const {
    SLUICE_ASSERT(base::dtype_of<std::remove_const_t<T>>() == dtype_ || data_ == nullptr);
    return static_cast<T*>(data_);
  }

  /// The part [begin, end) of an axis.
  Tensor slice(std::size_t axis, std::int64_t begin, std::int64_t end) const;
  /// One index of an axis, which is dropped from the shape.
  Tensor select(std::size_t axis, std::int64_t index) const;
  /// The same elements under another shape; contiguous tensors only.
  Tensor reshape(const Shape& shape) const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

}  // namespace sluice::runtime
