#pragma once

#include <cstddef>
#include <cstdint>

#include "base/shape.h"

namespace sluice::kernels::attention_decoder {

/// Cuts one piece of memory into arrays aligned to 64 bytes. With a null base it only counts, so
/// that sizes and pointers can't disagree.
class Carver {
 public:
  explicit Carver(void* base = nullptr) : base_(static_cast<std::byte*>(base)) {}

  template <typename T>
  T* take(std::int64_t count) {
    T* array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = base::checked_mul(static_cast<std::size_t>(count), sizeof(T));
    used_ = base::checked_add(used_, base::align_up(bytes, 64));
    return array;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

/// The extents of one run.
struct Extents {
  std::int64_t target_time = 0;
  std::int64_t source_time = 0;
  std::int64_t rows = 0;
};

}  // namespace sluice::kernels::attention_decoder
