#pragma once

#include "kernels/recurrent/cpu/leaf.h"

namespace sluice::kernels::recurrent::cpu {

/// The AMX leaf on tiles kept in memory. Needs what avx512_leaf_bf16 needs. A use of tiles that the
/// hardware would refuse ends the program.
extern const Leaf<base::BFloat16> kEmulatedAmxLeaf;

}  // namespace sluice::kernels::recurrent::cpu
