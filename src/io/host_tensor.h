#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace sluice::io {

using base::DType;
using base::Shape;

/// A tensor in plain host memory, row-major.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<std::byte> data;

  /// Zeros. Throws ErrorCode::kOutOfMemory if the memory is refused.
  static HostTensor make(DType dtype, const Shape& shape);
  /// A copy of `values`, which must be shape's number of elements.
  template <typename T>
  static HostTensor copy_of(std::span<const T> values, const Shape& shape) {
    HostTensor tensor = make(base::dtype_of<T>(), shape);
    SLUICE_CHECK(values.size_bytes() == tensor.data.size(), "{} values for a tensor of shape {}",
                 values.size(), shape.to_string());
    const auto bytes = std::as_bytes(values);
    tensor.data.assign(bytes.begin(), bytes.end());
    return tensor;
  }

  /// The elements as T, which must be the tensor's dtype.
  template <typename T>
  std::span<const T> values() const {
    check_access(base::dtype_of<T>());
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> values() {
    check_access(base::dtype_of<T>());
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

 private:
  void check_access(DType wanted) const;
};

/// Named tensors in the order they were added.
class TensorTable {
 public:
  using Entry = std::pair<std::string, HostTensor>;

  /// A second tensor of the same name is refused.
  HostTensor& add(std::string name, HostTensor tensor);
  /// Null if there is none.
  const HostTensor* find(std::string_view name) const;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace sluice::io
