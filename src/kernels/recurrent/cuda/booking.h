#pragma once

#include <initializer_list>

#include "base/shape.h"
#include "kernels/recurrent/cuda/layout.h"

/// How layouts are booked.
namespace sluice::kernels::recurrent::cuda {

/// Hands out offsets one after another.
class Booking {
 public:
  std::size_t take(std::int64_t element_bytes, std::initializer_list<std::int64_t> extents) {
    constexpr std::size_t kAlignment = 256;
    std::size_t bytes = static_cast<std::size_t>(element_bytes);
    for (const std::int64_t extent : extents) {
      bytes = base::checked_mul(bytes, static_cast<std::size_t>(extent));
    }
    const std::size_t offset = total_;
    total_ = base::checked_add(total_, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return offset;
  }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

inline constexpr std::int64_t kFloat = sizeof(float), kHalf = 2;

inline RowScaledFactor book_scaled_rows(Booking& booking, std::int64_t rows, std::int64_t width) {
  RowScaledFactor factor;
  factor.values = booking.take(kHalf, {rows, width});
  factor.scales = booking.take(kFloat, {rows});
  return factor;
}

/// Of a workspace, with what lies in the reserve.
BackwardLayout book_backward(Booking& booking, const Descriptor& descriptor, const Rung& rung,
                             const ReserveLayout& reserve);

}  // namespace sluice::kernels::recurrent::cuda
