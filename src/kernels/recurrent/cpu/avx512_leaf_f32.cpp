#include "kernels/recurrent/cpu/avx512_f32_isa.h"
#include "kernels/recurrent/cpu/leaf_body.h"
#include "kernels/recurrent/cpu/leaves.h"

namespace sluice::kernels::recurrent::cpu {

const Leaf<float> kAvx512LeafF32 = LeafBody<Avx512F32Isa>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
