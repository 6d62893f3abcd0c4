#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/recurrent/cuda/storage.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

/// Products of a warpgroup: sums [64, kColumns] += a [64, 16] * the transpose of b [kColumns, 16].
/// Factors in shared memory are matrices of eight rows of 16 bytes; sums are as multiply_lines
/// (warpgroup_product.h) has them.
namespace sluice::kernels::recurrent::cuda::projected {

/// How the tensor cores find a factor: the other half of its depth lies `half_bytes` behind, the
/// next eight rows 128 bytes.
__device__ inline std::uint64_t factor_at(std::uint32_t address, int half_bytes) {
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(half_bytes >> 4) << 16 | std::uint64_t{128 >> 4} << 32;
}

/// Waits until all products have been added: nothing reads the sums before.
template <int kSums>
__device__ void finish_products(float (&sums)[kSums]) {
  wait_for_products<0>();
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

/// add(sums, a, b), with a in registers as mma.sync has it, warp by warp, or in shared memory.
template <typename T, int kColumns>
struct Product;

// The operands behind the sums are counted on from those: REGISTERS and MEMORY are their numbers.
#define SLUICE_WGMMA(SHAPE, KIND, SUMS, FACTORS) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"     \
  "wgmma.mma_async.sync.aligned." SHAPE "k16.f32." KIND "." KIND " {" SUMS "}, " FACTORS ";\n}"
#define SLUICE_PRODUCT(COLUMNS, SHAPE, SUMS, REGISTERS, MEMORY, ...)                        \
  template <typename T>                                                                     \
  struct Product<T, COLUMNS> {                                                              \
    static constexpr bool kBFloat16 = std::is_same_v<T, __nv_bfloat16>;                     \
    __device__ static void add(float (&d)[COLUMNS / 2], const std::uint32_t (&a)[4],        \
                               std::uint64_t b) {                                           \
      if constexpr (kBFloat16) {                                                            \
        asm volatile(SLUICE_WGMMA(SHAPE, "bf16", SUMS, REGISTERS ", p, 1, 1, 0")            \
                     : __VA_ARGS__                                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                 \
      } else {                                                                              \
        asm volatile(SLUICE_WGMMA(SHAPE, "f16", SUMS, REGISTERS ", p, 1, 1, 0")             \
                     : __VA_ARGS__                                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                 \
      }                                                                                     \
    }                                                                                       \
    __device__ static void add(float (&d)[COLUMNS / 2], std::uint64_t a, std::uint64_t b) { \
      if constexpr (kBFloat16) {                                                            \
        asm volatile(SLUICE_WGMMA(SHAPE, "bf16", SUMS, MEMORY ", p, 1, 1, 0, 0")            \
                     : __VA_ARGS__                                                          \
                     : "l"(a), "l"(b));                                                     \
      } else {                                                                              \
        asm volatile(SLUICE_WGMMA(SHAPE, "f16", SUMS, MEMORY ", p, 1, 1, 0, 0")             \
                     : __VA_ARGS__                                                          \
                     : "l"(a), "l"(b));                                                     \
      }                                                                                     \
    }                                                                                       \
  }
#define SLUICE_SUMS(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SLUICE_4 "%0,%1,%2,%3"
#define SLUICE_8 SLUICE_4 ",%4,%5,%6,%7"
#define SLUICE_16 SLUICE_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define SLUICE_32 SLUICE_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
SLUICE_PRODUCT(8, "m64n8", SLUICE_4, "{%4,%5,%6,%7}, %8", "%4, %5", SLUICE_SUMS(0));
SLUICE_PRODUCT(16, "m64n16", SLUICE_8, "{%8,%9,%10,%11}, %12", "%8, %9", SLUICE_SUMS(0),
               SLUICE_SUMS(4));
SLUICE_PRODUCT(32, "m64n32", SLUICE_16, "{%16,%17,%18,%19}, %20", "%16, %17", SLUICE_SUMS(0),
               SLUICE_SUMS(4), SLUICE_SUMS(8), SLUICE_SUMS(12));
SLUICE_PRODUCT(64, "m64n64", SLUICE_32, "{%32,%33,%34,%35}, %36", "%32, %33", SLUICE_SUMS(0),
               SLUICE_SUMS(4), SLUICE_SUMS(8), SLUICE_SUMS(12), SLUICE_SUMS(16), SLUICE_SUMS(20),
               SLUICE_SUMS(24), SLUICE_SUMS(28));
#undef SLUICE_32
#undef SLUICE_16
#undef SLUICE_8
#undef SLUICE_4
#undef SLUICE_SUMS
#undef SLUICE_PRODUCT
#undef SLUICE_WGMMA

}  // namespace sluice::kernels::recurrent::cuda::projected
