#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "base/dtype.h"

/// Storage types and what is computed in: float64 in itself, all others in float32.
namespace sluice::kernels::attention_decoder::cuda {

template <typename S>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
/// Of sums, cell states, master weights and their gradients.
template <typename S>
using Wide = typename WideOf<S>::type;

template <typename S>
constexpr base::DType storage_dtype();
template <>
constexpr base::DType storage_dtype<double>() {
  return base::DType::kFloat64;
}
template <>
constexpr base::DType storage_dtype<float>() {
  return base::DType::kFloat32;
}
template <>
constexpr base::DType storage_dtype<__nv_bfloat16>() {
  return base::DType::kBFloat16;
}
template <>
constexpr base::DType storage_dtype<__half>() {
  return base::DType::kFloat16;
}

/// The largest of float16's numbers.
constexpr float kMostFloat16 = 65504;

/// The nearest number within [-limit, limit]; NaN stays.
template <typename W>
__device__ inline W within(W x, float limit) {
  const W most = limit;
  return x > most ? most : x < -most ? -most : x;
}

/// Whole vectors, so that every row of an array starts aligned: rows of internal arrays are padded
/// with zeros to multiples of this.
constexpr std::int64_t kPad = 8;
constexpr std::int64_t padded(std::int64_t width) { return (width + kPad - 1) / kPad * kPad; }

}  // namespace sluice::kernels::attention_decoder::cuda
