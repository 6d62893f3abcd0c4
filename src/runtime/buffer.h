#pragma once

#include <cstddef>
#include <utility>

#include "runtime/device.h"
#include "runtime/tensor.h"

namespace sluice::runtime {

/// Owns one allocation on a device; frees it on destruction. The device must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::size_t bytes)
      : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {
    device.note_taken(bytes);
  }
  Buffer(Buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_ == nullptr) return;
    device_->deallocate(data_, bytes_);
    device_->note_freed(bytes_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// A contiguous view from byte `offset` on, checked against the size.
  Tensor tensor(DType dtype, const Shape& shape, std::size_t offset = 0) const {
    const Tensor view(static_cast<std::byte*>(data_) + offset, dtype, shape);
    SLUICE_ASSERT(base::checked_add(offset, view.byte_size()) <= bytes_);
    return view;
  }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sluice::runtime
