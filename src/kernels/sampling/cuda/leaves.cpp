#include "kernels/sampling/cuda/sampling.h"

namespace sluice::kernels::sampling::cuda {

const Leaves kLeaves{start, advance};

}  // namespace sluice::kernels::sampling::cuda
