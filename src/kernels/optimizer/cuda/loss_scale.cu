#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

__global__ void update_kernel(double* numbers, const double* sum_of_squares,
                              double growth_interval) {
  if (!isfinite(*sum_of_squares)) {
    numbers[kScale] /= 2;
    numbers[kGoodSteps] = 0;
    numbers[kSkippedSteps] += 1;
  } else if (++numbers[kGoodSteps] >= growth_interval) {
    numbers[kScale] *= 2;
    numbers[kGoodSteps] = 0;
  }
}

}  // namespace

void update_loss_scale(Stream& stream, const LossScaleArgs& args) {
  runtime::cuda::launch(stream, "update the loss scale", update_kernel, 1, 1, 0,
                        args.loss_scale.data_as<double>(),
                        args.sum_of_squares.data_as<const double>(), args.growth_interval);
}

}  // namespace sluice::kernels::optimizer::cuda
