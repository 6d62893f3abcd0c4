#include "kernels/sampling/cuda/sampling.h"
#include "kernels/sampling/cuda/view.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::sampling::cuda {
namespace {

constexpr int kBlock = 128;

/// A block a row.
__global__ void start_kernel(Rules rules, View v) {
  const std::int64_t row = blockIdx.x;
  for (std::int64_t t = threadIdx.x; t < v.max_length; t += kBlock) {
    v.emitted[row * v.max_length + t] = rules.pad;
  }
  if (threadIdx.x != 0) return;
  const std::int64_t input = row / v.samples;
  v.input_of_row[row] = static_cast<std::int32_t>(input);
  v.tokens[row] = rules.bos;
  v.status[row] = kLive;
  v.lengths[row] = 0;
  v.scores[row] = 0;
  if (row % v.samples == 0) v.faults[input] = 0;
  if (row != 0) return;
  *v.step = *v.first_step = *v.arrivals = 0;
  *v.unfinished = static_cast<std::int32_t>(v.rows());
}

}  // namespace

void start(Stream& stream, const Rules& rules, const State& state) {
  const View view(state);
  runtime::cuda::launch(stream, "start sampling", start_kernel, static_cast<unsigned>(view.rows()),
                        kBlock, 0, rules, view);
  if (state.extent.attention) {
    stream.fill_zero(state.attention.data(), state.attention.byte_size());
  }
}

}  // namespace sluice::kernels::sampling::cuda
