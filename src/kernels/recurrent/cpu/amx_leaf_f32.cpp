#include "kernels/recurrent/cpu/amx_isa.h"
#include "kernels/recurrent/cpu/hardware_tiles.h"
#include "kernels/recurrent/cpu/leaves.h"

namespace sluice::kernels::recurrent::cpu {

const Leaf<float> kAmxLeafF32 = AmxBody<AmxF32Isa, HardwareTiles>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
