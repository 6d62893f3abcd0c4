#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/view.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::beam_search::cuda {
namespace {

constexpr int kBlock = 128;

/// A thread a row; the first of an input sets what belongs to the input.
__global__ void start_kernel(Rules rules, View v) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (row == 0) *v.unfinished = static_cast<std::int32_t>(v.inputs);
  if (row >= v.rows()) return;
  const std::int64_t input = row / v.beam;
  v.input_of_row[row] = static_cast<std::int32_t>(input / v.groups);
  v.tokens[row] = rules.bos;
  v.parents[row] = static_cast<std::int32_t>(row);
  v.scores[row] = row % v.beam == 0 ? 0.0 : no_score();
  if (row % v.beam != 0) return;
  v.step[input] = v.done[input] = v.faults[input] = v.finished[input] = v.arrivals[input] = 0;
  for (std::int64_t j = input * v.nbest; j < (input + 1) * v.nbest; ++j) {
    v.best_scores[j] = v.best_normalised[j] = no_score();
    v.best_lengths[j] = -1;
    v.best_rows[j] = 0;
  }
}

}  // namespace

void start(Stream& stream, const Rules& rules, const State& state) {
  const View view(state);
  runtime::cuda::launch(stream, "start a beam search", start_kernel,
                        static_cast<unsigned>(view.rows() / kBlock + 1), kBlock, 0, rules, view);
}

}  // namespace sluice::kernels::beam_search::cuda
