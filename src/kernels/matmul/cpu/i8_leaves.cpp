#include "kernels/matmul/cpu/i8_leaf.h"

namespace sluice::kernels::matmul::cpu {

#if defined(__x86_64__)

const I8Leaf* avx2_i8_leaf() { return __builtin_cpu_supports("avx2") ? &kAvx2I8Leaf : nullptr; }

const I8Leaf* avx_vnni_i8_leaf() {
  const bool here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avxvnni");
  return here ? &kAvxVnniI8Leaf : nullptr;
}

const I8Leaf* avx512_vnni_i8_leaf() {
  const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return here ? &kAvx512VnniI8Leaf : nullptr;
}

#else

const I8Leaf* avx2_i8_leaf() { return nullptr; }
const I8Leaf* avx_vnni_i8_leaf() { return nullptr; }
const I8Leaf* avx512_vnni_i8_leaf() { return nullptr; }

#endif

const I8Leaf& best_i8_leaf() {
  if (const I8Leaf* leaf = avx512_vnni_i8_leaf()) return *leaf;
  if (const I8Leaf* leaf = avx_vnni_i8_leaf()) return *leaf;
  if (const I8Leaf* leaf = avx2_i8_leaf()) return *leaf;
  return kPortableI8Leaf;
}

}  // namespace sluice::kernels::matmul::cpu
