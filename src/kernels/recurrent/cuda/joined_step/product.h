#pragma once

#include "kernels/recurrent/cuda/warpgroup_product.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// sums [64, kColumns] += a [64, depth] * the transpose of b [kColumns, depth], which all are as
/// multiply_lines has them.
template <typename T, int kColumns>
__device__ void add_lines(float* d, std::uint64_t a, std::uint64_t b) {
#define SLUICE_D4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define SLUICE_D16(I) SLUICE_D4(I), SLUICE_D4(I + 4), SLUICE_D4(I + 8), SLUICE_D4(I + 12)
#define SLUICE_64                                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
  "%25,%26,%27,%28,%29,%30,%31"
#define SLUICE_128                                                                            \
  SLUICE_64                                                                                   \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SLUICE_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define SLUICE_WGMMA(SHAPE, SUMS, FACTORS, TAIL, ...)                                       \
  asm volatile(                                                                             \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                            \
      "wgmma.mma_async.sync.aligned." SHAPE " {" SUMS "}, " FACTORS ", p, 1, 1" TAIL ";\n}" \
      : __VA_ARGS__                                                                         \
      : "l"(a), "l"(b))
#define SLUICE_WGMMA_OF(KIND, TAIL)                                                           \
  if constexpr (kColumns == 128) {                                                            \
    SLUICE_WGMMA("m64n128" KIND, SLUICE_128, "%64, %65", TAIL, SLUICE_D16(0), SLUICE_D16(16), \
                 SLUICE_D16(32), SLUICE_D16(48));                                             \
  } else if constexpr (kColumns == 64) {                                                      \
    SLUICE_WGMMA("m64n64" KIND, SLUICE_64, "%32, %33", TAIL, SLUICE_D16(0), SLUICE_D16(16));  \
  } else {                                                                                    \
    static_assert(kColumns == 32);                                                            \
    SLUICE_WGMMA("m64n32" KIND, SLUICE_32, "%16, %17", TAIL, SLUICE_D16(0));                  \
  }
  if constexpr (std::is_same_v<T, float>) {
    SLUICE_WGMMA_OF("k8.f32.tf32.tf32", "")
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    SLUICE_WGMMA_OF("k16.f32.bf16.bf16", ", 0, 0")
  } else {
    SLUICE_WGMMA_OF("k16.f32.f16.f16", ", 0, 0")
  }
#undef SLUICE_WGMMA_OF
#undef SLUICE_WGMMA
#undef SLUICE_32
#undef SLUICE_128
#undef SLUICE_64
#undef SLUICE_D16
#undef SLUICE_D4
}

}  // namespace sluice::kernels::recurrent::cuda::joined_step
