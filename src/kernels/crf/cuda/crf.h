#pragma once

#include "kernels/crf/leaves.h"
#include "kernels/crf/workspace.h"

/// The CUDA leaves of crf.h: arguments are checked already. A target that is no label makes its
/// row's loss NaN.
namespace sluice::kernels::crf::cuda {

void negative_log_likelihood(Stream& stream, const LossArgs& args);
void best_labels(Stream& stream, const BestLabelsArgs& args);

/// Queues what is left to do for the gradient when all chains have been summed up.
template <typename T>
void add_gradient(Stream& stream, const LossArgs& args, const Workspace& workspace);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::crf::cuda
