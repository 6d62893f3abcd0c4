#include <cmath>

#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer::cpu {

void update_loss_scale(Stream& stream, const LossScaleArgs& args) {
  stream.launch([args] {
    auto* numbers = args.loss_scale.data_as<double>();
    if (!std::isfinite(args.sum_of_squares.data_as<const double>()[0])) {
      numbers[kScale] /= 2;
      numbers[kGoodSteps] = 0;
      numbers[kSkippedSteps] += 1;
    } else if (++numbers[kGoodSteps] >= args.growth_interval) {
      numbers[kScale] *= 2;
      numbers[kGoodSteps] = 0;
    }
  });
}

}  // namespace sluice::kernels::optimizer::cpu
