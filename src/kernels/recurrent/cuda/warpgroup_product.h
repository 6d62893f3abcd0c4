#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/recurrent/cuda/storage.h"

/// Products of a warpgroup (128 threads) on Hopper's tensor cores, both factors in shared memory:
/// lines of 128 bytes of depth, each eighth line 1024 bytes behind, 16-byte pieces swapped as
/// tensor copies with 128-byte swizzle leave them. float32 is cut off to TF32.
namespace sluice::kernels::recurrent::cuda {

inline constexpr int kLineBytes = 128, kGroupBytes = 8 * kLineBytes;
/// Of the depth that one instruction takes.
inline constexpr int kDepthBytes = 32;

/// How the tensor cores find lines: eight from `address` on, the next eight `group_bytes` behind.
__device__ inline std::uint64_t lines_at(std::uint32_t address, int group_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(group_bytes >> 4) << 32 | kSwizzle128 << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `kUnfinished` of the groups that end_products() closed are at work.
template <int kUnfinished>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnfinished) : "memory");
}

/// sums [64, kColumns] = a [64, depth] * the transpose of b [kColumns, depth], added if `add`. Lane
/// l of warp w has, of the i-th 8 columns, 2 (l % 4) and + 1 of row 16 w + l / 4 in sums[4 i] and
/// + 1, and of the row 8 below in sums[4 i + 2] and + 3.
template <typename T, int kColumns>
__device__ void multiply_lines(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                               int add) {
#define SLUICE_WGMMA_32(KIND, TAIL)                                                             \
  asm volatile(                                                                                 \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"                                              \
      "wgmma.mma_async.sync.aligned.m64n32" KIND                                                \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1" TAIL ";\n}" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),     \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), \
        "+f"(d[14]), "+f"(d[15])                                                                \
      : "l"(a), "l"(b), "r"(add))
#define SLUICE_WGMMA_16(KIND, TAIL)                                                         \
  asm volatile(                                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"                                          \
      "wgmma.mma_async.sync.aligned.m64n16" KIND                                            \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1" TAIL ";\n}"                             \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), \
        "+f"(d[7])                                                                          \
      : "l"(a), "l"(b), "r"(add))
#define SLUICE_WGMMA(KIND, TAIL)   \
  if constexpr (kColumns == 32) {  \
    SLUICE_WGMMA_32(KIND, TAIL);   \
  } else {                         \
    static_assert(kColumns == 16); \
    SLUICE_WGMMA_16(KIND, TAIL);   \
  }
  if constexpr (std::is_same_v<T, float>) {
    SLUICE_WGMMA("k8.f32.tf32.tf32", "")
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA("k16.f32.bf16.bf16", ", 0, 0")
  } else {
    SLUICE_WGMMA("k16.f32.f16.f16", ", 0, 0")
  }
#undef SLUICE_WGMMA
#undef SLUICE_WGMMA_16
#undef SLUICE_WGMMA_32
}

}  // namespace sluice::kernels::recurrent::cuda
