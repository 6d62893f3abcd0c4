#pragma once

#include "runtime/context.h"
#include "runtime/tensor.h"

/// Dynamic loss scaling (Micikevicius et al. 2018, "Mixed Precision Training"): the gradient of the
/// loss is multiplied by a scale, so that what is stored in float16 on the way back neither
/// vanishes nor overflows, and divided by it again before it is used. Where that leaves a gradient
/// that is not finite, the step is skipped and the scale halved; after many good steps it is
/// doubled, as torch.amp.GradScaler does. All of it stays on the device: nothing waits.
namespace sluice::kernels::optimizer {

using runtime::Context;
using runtime::Tensor;

/// The numbers of a loss scale, a tensor float64 [kLossScaleNumbers].
enum LossScaleNumber : int {
  kScale = 0,         ///< what gradients are multiplied by, a power of two
  kGoodSteps = 1,     ///< since the scale changed
  kSkippedSteps = 2,  ///< in all
  kLossScaleNumbers = 3
};

inline constexpr double kFirstLossScale = 65536;

struct LossScaleArgs {
  Tensor loss_scale;      ///< in/out
  Tensor sum_of_squares;  ///< float64 [1] of the step's gradients: not finite if it was skipped
  double growth_interval = 2000;  ///< good steps before the scale is doubled
};
void update_loss_scale(const Context& context, const LossScaleArgs& args);

}  // namespace sluice::kernels::optimizer
