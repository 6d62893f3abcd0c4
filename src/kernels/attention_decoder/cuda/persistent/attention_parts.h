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

/// a / (1 + e^(2 x)) + b / (1 + e^(2 y)) by one division, x and y sums of a key and of a query,
/// which comes times 2 / ln(2).
__device__ inline float fractions(float key_a, float key_b, float query_a, float query_b, float a,
                                  float b) {
  // Where both are this large, tanh is 1 and their product is still a number. NaN stays NaN.
  constexpr float kMost = 60;
  const auto bounded = [](float key, float query) {
    return recurrent::cuda::at_most(kMost, fmaf(key, 2 * kLog2E, query));
  };
  const float x = 1 + recurrent::cuda::fast_exp2(bounded(key_a, query_a));
  const float y = 1 + recurrent::cuda::fast_exp2(bounded(key_b, query_b));
  return fmaf(a, y, b * x) * recurrent::cuda::fast_reciprocal(x * y);
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
