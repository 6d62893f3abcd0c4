#include "kernels/attention_decoder/cpu/attention_body.h"

namespace sluice::kernels::attention_decoder::cpu {

extern const AttentionLeaf<float> kAvx2AttentionLeaf;
const AttentionLeaf<float> kAvx2AttentionLeaf = AttentionBody<float, 8>::leaf();

}  // namespace sluice::kernels::attention_decoder::cpu
