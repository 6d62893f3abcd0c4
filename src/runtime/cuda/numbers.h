#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "base/dtype.h"

/// Conversions between storage types in device code.
namespace sluice::runtime::cuda {

/// float32, or float64 for float64.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The processor's own conversions of 16-bit types, which are shorter than those of base.
template <typename T>
__device__ Wide<T> widened(T value) {
  if constexpr (std::is_same_v<T, base::Float16>) {
    return __half2float(__ushort_as_half(value.bits));
  } else {
    return static_cast<Wide<T>>(value);
  }
}

/// Rounded to nearest even.
template <typename T>
__device__ T narrowed(Wide<T> value) {
  if constexpr (std::is_same_v<T, base::Float16>) {
    base::Float16 half;
    half.bits = __half_as_ushort(__float2half_rn(value));
    return half;
  } else if constexpr (std::is_same_v<T, base::BFloat16>) {
    base::BFloat16 brain;
    brain.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    return brain;
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace sluice::runtime::cuda
