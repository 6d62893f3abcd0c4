#include "kernels/crf/cuda/crf.h"

namespace sluice::kernels::crf::cuda {

const Leaves kLeaves{negative_log_likelihood, best_labels};

}  // namespace sluice::kernels::crf::cuda
