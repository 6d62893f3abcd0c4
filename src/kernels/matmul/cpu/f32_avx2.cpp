#include "kernels/matmul/cpu/f32_body.h"

namespace sluice::kernels::matmul::cpu {

extern const F32Leaf kAvx2F32Leaf;
const F32Leaf kAvx2F32Leaf = F32Body<8>::leaf();

}  // namespace sluice::kernels::matmul::cpu
