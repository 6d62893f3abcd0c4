#include "kernels/optimizer/cuda/optimizer.h"

namespace sluice::kernels::optimizer::cuda {

const Leaves kLeaves{zero_gradients, sum_of_squares, adam_step, sgd_step, update_loss_scale};

}  // namespace sluice::kernels::optimizer::cuda
