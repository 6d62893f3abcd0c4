#include "kernels/attention_decoder/cpu/attention_leaf.h"

namespace sluice::kernels::attention_decoder::cpu {

#if defined(__x86_64__)

// Defined in files compiled for their instruction set.
extern const AttentionLeaf<float> kAvx2AttentionLeaf;
extern const AttentionLeaf<float> kAvx512AttentionLeaf;

const AttentionLeaf<float>* avx2_attention_leaf() {
  const bool here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return here ? &kAvx2AttentionLeaf : nullptr;
}

const AttentionLeaf<float>* avx512_attention_leaf() {
  const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  return here ? &kAvx512AttentionLeaf : nullptr;
}

#else

const AttentionLeaf<float>* avx2_attention_leaf() { return nullptr; }
const AttentionLeaf<float>* avx512_attention_leaf() { return nullptr; }

#endif

}  // namespace sluice::kernels::attention_decoder::cpu
