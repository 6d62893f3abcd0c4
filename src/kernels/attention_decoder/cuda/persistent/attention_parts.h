#pragma once

#include "kernels/attention_decoder/cuda/persistent/cell_place.h"
#include "kernels/recurrent/cuda/cells.h"

/// What attention does with a thread's four columns.
namespace sluice::kernels::attention_decoder::cuda::persistent {

inline constexpr float kLog2E = 1.44269504f;

/// Four numbers as they are stored, and back.
template <typename S>
__device__ float4 wide(const uint2& bits) {
  S values[4];
  memcpy(values, &bits, sizeof(bits));
  return make_float4(static_cast<float>(values[0]), static_cast<float>(values[1]),
                     static_cast<float>(values[2]), static_cast<float>(values[3]));
}
template <typename S>
__device__ uint2 narrow(const float4& v) {
  return {pair_of<S>(v.x, v.y), pair_of<S>(v.z, v.w)};
}

__device__ inline void unpack(const float4& v, float (&to)[4]) {
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
__device__ inline float4 packed(const float (&x)[4]) { return make_float4(x[0], x[1], x[2], x[3]); }

/// e^(2 (key + query)), where `query` comes times 2 / ln(2). Where it is as large as this bounds
/// it, tanh is 1 and the product of two of them is still a number. NaN stays NaN.
__device__ inline float exponential(float key, float query) {
  constexpr float kMost = 60;
  return recurrent::cuda::fast_exp2(recurrent::cuda::at_most(kMost, fmaf(key, 2 * kLog2E, query)));
}

/// a / (1 + e^(2 x)) + b / (1 + e^(2 y)) by one division, x and y sums of a key and of a query.
__device__ inline float fractions(float key_a, float key_b, float query_a, float query_b, float a,
                                  float b) {
  const float x = 1 + exponential(key_a, query_a), y = 1 + exponential(key_b, query_b);
  return fmaf(a, y, b * x) * recurrent::cuda::fast_reciprocal(x * y);
}

/// Adds `factor` times a fourth of the slope of tanh, e^(2 x) / (1 + e^(2 x))^2, for both.
__device__ inline void add_slopes(float key_a, float key_b, float query_a, float query_b,
                                  float factor, float& sum_a, float& sum_b) {
  const float a = exponential(key_a, query_a), b = exponential(key_b, query_b);
  const float x = 1 + a, y = 1 + b, both = recurrent::cuda::fast_reciprocal(x * y);
  const float of_a = both * y, of_b = both * x;
  sum_a = fmaf(factor, a * of_a * of_a, sum_a);
  sum_b = fmaf(factor, b * of_b * of_b, sum_b);
}

/// The sum of this lane and the one `half` away: of `low` in the lower of them, `high` in the
/// upper.
__device__ inline float exchanged(float low, float high, int half) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(half)) != 0;
  return (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, half);
}

/// Adds four numbers times `factor`.
template <typename S>
__device__ void add_scaled(float factor, const uint2& bits, float4& sum) {
  const float4 value = wide<S>(bits);
  sum.x += factor * value.x;
  sum.y += factor * value.y;
  sum.z += factor * value.z;
  sum.w += factor * value.w;
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
