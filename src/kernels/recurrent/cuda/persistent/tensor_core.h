#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

/// Products of fragments by a warp: sum [16, 8] += a [16, 16] * b [16, 8]. Thread 4g + q holds rows
/// g and g + 8, and of columns (sum) or of depth (factors) 2q and 2q + 1.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename T>
__device__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1);

template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&sum)[4], const std::uint32_t (&a)[4],
                                                   std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void multiply_add<__half>(float (&sum)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four blocks of 8 rows of 16 bytes; lane l has the address of row l % 8 of block l / 8.
__device__ inline void load_blocks(std::uint32_t (&b)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(address)
               : "memory");
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
