#include "kernels/attention_decoder/cpu/attention_body.h"

namespace sluice::kernels::attention_decoder::cpu {

extern const AttentionLeaf<float> kAvx512AttentionLeaf;
const AttentionLeaf<float> kAvx512AttentionLeaf = AttentionBody<float, 16>::leaf();

}  // namespace sluice::kernels::attention_decoder::cpu
