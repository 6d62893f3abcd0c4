#include "kernels/matmul/cpu/f32_leaf.h"

namespace sluice::kernels::matmul::cpu {

#if defined(__x86_64__)

// Defined in files compiled for their instruction set.
extern const F32Leaf kAvx2F32Leaf;
extern const F32Leaf kAvx512F32Leaf;

const F32Leaf* avx2_f32_leaf() {
  const bool here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return here ? &kAvx2F32Leaf : nullptr;
}

const F32Leaf* avx512_f32_leaf() {
  return __builtin_cpu_supports("avx512f") ? &kAvx512F32Leaf : nullptr;
}

#else

const F32Leaf* avx2_f32_leaf() { return nullptr; }
const F32Leaf* avx512_f32_leaf() { return nullptr; }

#endif

}  // namespace sluice::kernels::matmul::cpu
