#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/view.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::beam_search::cuda {
namespace {

constexpr int kBlock = 128;

struct Record {
  std::int64_t steps;
  std::int32_t *tokens, *parents;
  double* scores;
  std::int32_t* taken;
};

/// A thread a row; the first counts the steps.
__global__ void record_kernel(View v, Record into) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= v.rows()) return;
  const std::int64_t step = *v.step - 1;
  if (step < 0 || step >= into.steps) return;
  const std::int64_t at = step * v.rows() + row;
  into.tokens[at] = v.tokens[row];
  into.parents[at] = v.parents[row];
  into.scores[at] = v.scores[row];
  if (row != 0) return;
  const bool was_done = step > 0 && into.taken[1] != 0;
  if (!was_done) into.taken[0] = static_cast<std::int32_t>(step + 1);
  into.taken[1] = *v.unfinished == 0 ? 1 : 0;
}

}  // namespace

void record(Stream& stream, const State& state, const StepRecord& into) {
  const View view(state);
  runtime::cuda::launch(stream, "record a step of a beam search", record_kernel,
                        static_cast<unsigned>((view.rows() + kBlock - 1) / kBlock), kBlock, 0, view,
                        Record{into.tokens.size(0), into.tokens.data_as<std::int32_t>(),
                               into.parents.data_as<std::int32_t>(), into.scores.data_as<double>(),
                               into.taken.data_as<std::int32_t>()});
}

}  // namespace sluice::kernels::beam_search::cuda
