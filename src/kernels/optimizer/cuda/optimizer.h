#pragma once

#include "kernels/optimizer/leaves.h"

/// The CUDA leaves of optimizer.h: arguments are checked already.
namespace sluice::kernels::optimizer::cuda {

void zero_gradients(Stream& stream, const ZeroGradientsArgs& args);
void sum_of_squares(Stream& stream, const SumOfSquaresArgs& args);
void adam_step(Stream& stream, const AdamArgs& args);
void sgd_step(Stream& stream, const SgdArgs& args);
void update_loss_scale(Stream& stream, const LossScaleArgs& args);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::optimizer::cuda
