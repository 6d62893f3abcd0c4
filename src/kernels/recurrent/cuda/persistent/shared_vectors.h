#pragma once

#include <cstdint>

/// Numbers that lie next to each other in shared memory.
namespace sluice::kernels::recurrent::cuda::persistent {

__device__ inline float2 load_pair(std::uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address));
  return value;
}
__device__ inline float4 load_four(std::uint32_t address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address));
  return value;
}
__device__ inline void store_pair(std::uint32_t address, float2 value) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(value.x), "f"(value.y)
               : "memory");
}
__device__ inline void store_four(std::uint32_t address, const float4& value) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
