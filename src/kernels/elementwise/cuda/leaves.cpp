#include "kernels/elementwise/cuda/elementwise.h"

namespace sluice::kernels::elementwise::cuda {

const Leaves kLeaves{fill,         scale,         accumulate, convert,     rearrange,
                     tanh_forward, tanh_backward, add_bias,   standardize, column_sums,
                     concatenate,  split,         dropout};

}  // namespace sluice::kernels::elementwise::cuda
