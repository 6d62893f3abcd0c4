#include "kernels/optimizer/cuda/optimizer.h"

namespace sluice::kernels::optimizer::cuda {

const Leaves kLeaves{zero_gradients, sum_of_squares,    adam_step,
                     sgd_step,       update_loss_scale, list_marked_bytes,
                     list_marked,    pack_chunks,       unpack_chunks};

}  // namespace sluice::kernels::optimizer::cuda
