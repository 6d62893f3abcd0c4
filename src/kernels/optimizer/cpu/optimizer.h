#pragma once

#include "kernels/optimizer/leaves.h"

/// The CPU leaves of optimizer.h: arguments are checked already.
namespace sluice::kernels::optimizer::cpu {

void zero_gradients(Stream& stream, const ZeroGradientsArgs& args);
void sum_of_squares(Stream& stream, const SumOfSquaresArgs& args);
void adam_step(Stream& stream, const AdamArgs& args);
void sgd_step(Stream& stream, const SgdArgs& args);
void update_loss_scale(Stream& stream, const LossScaleArgs& args);

inline constexpr Leaves kLeaves{zero_gradients, sum_of_squares, adam_step, sgd_step,
                                update_loss_scale};

}  // namespace sluice::kernels::optimizer::cpu
