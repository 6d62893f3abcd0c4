#include "kernels/token_mask/cuda/token_mask.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::token_mask::cuda {
namespace {

constexpr int kBlock = 256;

struct Masks {
  const std::int32_t *of_steps, *step;
  std::int64_t steps, inputs, rows_of_input, words;
};

/// A thread a word, of all rows.
__global__ void __launch_bounds__(kBlock)
    pick_kernel(Masks from, std::int64_t count, std::int32_t* mask) {
  const std::int64_t last = from.steps - 1, now = *from.step < last ? *from.step : last;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kBlock) {
    const std::int64_t input = i / from.words / from.rows_of_input;
    mask[i] = from.of_steps[(now * from.inputs + input) * from.words + i % from.words];
  }
}

}  // namespace

void pick(Stream& stream, const Tensor& of_steps, const Tensor& step, const Tensor& mask) {
  const std::int64_t count = mask.element_count(), inputs = of_steps.size(1);
  runtime::cuda::launch(
      stream, "pick the masks of a step", pick_kernel, runtime::cuda::blocks_for(count, kBlock),
      kBlock, 0,
      Masks{of_steps.data_as<const std::int32_t>(), step.data_as<const std::int32_t>(),
            of_steps.size(0), inputs, mask.size(0) / inputs, mask.size(1)},
      count, mask.data_as<std::int32_t>());
}

}  // namespace sluice::kernels::token_mask::cuda
