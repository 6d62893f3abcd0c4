#include "kernels/loss/cuda/loss.h"

namespace sluice::kernels::loss::cuda {

const Leaves kLeaves{cross_entropy, squared_error, score_targets, log_softmax, &kProjectedLeaves};

}  // namespace sluice::kernels::loss::cuda
