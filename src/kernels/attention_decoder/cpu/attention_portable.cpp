#include "kernels/attention_decoder/cpu/attention_body.h"

namespace sluice::kernels::attention_decoder::cpu {

// Sixteen bytes: what every 64-bit instruction set has.
template <typename T>
const AttentionLeaf<T>& portable_attention_leaf() {
  static constexpr AttentionLeaf<T> kLeaf = AttentionBody<T, 16 / sizeof(T)>::leaf();
  return kLeaf;
}

template const AttentionLeaf<double>& portable_attention_leaf<double>();
template const AttentionLeaf<float>& portable_attention_leaf<float>();

}  // namespace sluice::kernels::attention_decoder::cpu
