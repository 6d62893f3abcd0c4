#include "kernels/pooling/cuda/pooling.h"

namespace sluice::kernels::pooling::cuda {

const Leaves kLeaves{forward, backward};

}  // namespace sluice::kernels::pooling::cuda
