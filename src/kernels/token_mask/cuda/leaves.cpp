#include "kernels/token_mask/cuda/token_mask.h"

namespace sluice::kernels::token_mask::cuda {

const Leaves kLeaves{update, apply, pick};

}  // namespace sluice::kernels::token_mask::cuda
