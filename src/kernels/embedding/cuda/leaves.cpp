#include "kernels/embedding/cuda/embedding.h"

namespace sluice::kernels::embedding::cuda {

const Leaves kLeaves{gather, gather_each, scatter_each, gather_backward};

}  // namespace sluice::kernels::embedding::cuda
