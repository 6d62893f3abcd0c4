#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/check.h"
#include "base/dtype.h"

/// The storage types in device code: float32, bfloat16, float16. Arithmetic is float32.
namespace sluice::kernels::recurrent::cuda {

__device__ inline float load(const float* from) { return *from; }
__device__ inline float load(const __nv_bfloat16* from) { return __bfloat162float(*from); }
__device__ inline float load(const __half* from) { return __half2float(*from); }

__device__ inline void store(float* to, float value) { *to = value; }
__device__ inline void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }
__device__ inline void store(__half* to, float value) { *to = __float2half_rn(value); }

/// Calls `body(TypeTag<T>{})` with the device type of a storage dtype.
template <typename Body>
void dispatch_device_storage(base::DType dtype, Body&& body) {
  if (dtype == base::DType::kFloat32) return body(base::TypeTag<float>{});
  if (dtype == base::DType::kBFloat16) return body(base::TypeTag<__nv_bfloat16>{});
  SLUICE_ASSERT(dtype == base::DType::kFloat16);
  body(base::TypeTag<__half>{});
}

}  // namespace sluice::kernels::recurrent::cuda
