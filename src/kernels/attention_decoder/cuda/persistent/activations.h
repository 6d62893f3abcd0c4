#pragma once

/// Activations by two special functions each, which err by 2^-20 where the storage's own rounding
/// is 2^-12 of a value at best.
namespace sluice::kernels::attention_decoder::cuda::persistent {

__device__ inline float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
inline constexpr float kLog2OfE = 1.4426950408889634f;
__device__ inline float fast_sigmoid(float x) {
  return reciprocal(1.0f + power_of_two(-kLog2OfE * x));
}
__device__ inline float fast_tanh(float x) {
  return fmaf(-2.0f, reciprocal(1.0f + power_of_two(2 * kLog2OfE * x)), 1.0f);
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
