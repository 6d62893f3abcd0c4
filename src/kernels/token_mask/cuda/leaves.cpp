#include "kernels/token_mask/cuda/token_mask.h"

namespace sluice::kernels::token_mask::cuda {

const Leaves kLeaves{update, apply};

}  // namespace sluice::kernels::token_mask::cuda
