#pragma once

#include "kernels/recurrent/cpu/leaf.h"

namespace sluice::kernels::recurrent::cpu {

/// The AMX leaves on tiles kept in memory. They need what avx512_leaf_bf16 needs. A use of tiles
/// that the hardware would refuse ends the program.
extern const Leaf<base::BFloat16> kEmulatedAmxLeafBf16;
extern const Leaf<float> kEmulatedAmxLeafF32;

}  // namespace sluice::kernels::recurrent::cpu
