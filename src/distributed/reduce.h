#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace sluice::distributed {

/// Adds `more` to `values`, float32, float64 or bfloat16; of uint8 takes the larger. On the host.
/// All leaves that reduce by it give the same bits.
inline void reduce_into(std::byte* values, const std::byte* more, base::DType dtype,
                        std::int64_t count) {
  const auto each = [&](auto zero, const auto& reduce) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(values);
    const T* from = reinterpret_cast<const T*>(more);
    for (std::int64_t i = 0; i < count; ++i) to[i] = reduce(to[i], from[i]);
  };
  const auto sum = [](auto a, auto b) { return a + b; };
  if (dtype == base::DType::kFloat32) return each(float{}, sum);
  if (dtype == base::DType::kFloat64) return each(double{}, sum);
  if (dtype == base::DType::kBFloat16) {
    return each(base::BFloat16{}, [](base::BFloat16 a, base::BFloat16 b) {
      return base::BFloat16(static_cast<float>(a) + static_cast<float>(b));
    });
  }
  each(std::uint8_t{}, [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
}

}  // namespace sluice::distributed
