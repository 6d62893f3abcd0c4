#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// The storage types in device code: float32, bfloat16, float16. Arithmetic is float32.
namespace sluice::kernels::recurrent::cuda {

__device__ inline float load(const float* from) { return *from; }
__device__ inline float load(const __nv_bfloat16* from) { return __bfloat162float(*from); }
__device__ inline float load(const __half* from) { return __half2float(*from); }

__device__ inline void store(float* to, float value) { *to = value; }
__device__ inline void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }
__device__ inline void store(__half* to, float value) { *to = __float2half_rn(value); }

}  // namespace sluice::kernels::recurrent::cuda
