#include "kernels/recurrent/cpu/avx512_bf16_isa.h"
#include "kernels/recurrent/cpu/leaf_body.h"
#include "kernels/recurrent/cpu/leaves.h"

namespace sluice::kernels::recurrent::cpu {

const Leaf<base::BFloat16> kAvx512LeafBf16 = LeafBody<Avx512Bf16Isa>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
