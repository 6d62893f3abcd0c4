#pragma once

#include "kernels/matmul/cpu/i8_leaf.h"

namespace sluice::kernels::matmul::cpu {

/// The leaf for instructions that multiply unsigned by signed bytes, four at a time, with these in
/// plain C++: what it packs and how it corrects the offset is tested on every processor.
const I8Leaf& emulated_vnni_leaf();

}  // namespace sluice::kernels::matmul::cpu
