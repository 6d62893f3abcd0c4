#include "kernels/sampling/cuda/sampling.h"

namespace sluice::kernels::sampling::cuda {

const Leaves kLeaves{start, advance, schedule_inputs};

}  // namespace sluice::kernels::sampling::cuda
