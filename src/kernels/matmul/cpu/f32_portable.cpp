#include "kernels/matmul/cpu/f32_body.h"

namespace sluice::kernels::matmul::cpu {

// Sixteen bytes: what every 64-bit instruction set has.
const F32Leaf& portable_f32_leaf() {
  static constexpr F32Leaf kLeaf = F32Body<4>::leaf();
  return kLeaf;
}

}  // namespace sluice::kernels::matmul::cpu
