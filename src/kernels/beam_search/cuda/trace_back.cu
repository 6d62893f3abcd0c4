#include "base/dtype.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/beam_search/cuda/view.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::beam_search::cuda {
namespace {

using runtime::cuda::kWarp;

/// A warp a hypothesis: all lanes walk back, and share the work on what is written.
template <typename T>
__global__ void trace_back_kernel(View v, std::int32_t pad, std::int32_t* tokens, T* attention) {
  const std::int64_t which = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t length = v.best_lengths[which] < 0 ? 0 : v.best_lengths[which];
  std::int32_t* out = tokens + which * v.max_length;
  for (std::int64_t t = length + lane; t < v.max_length; t += kWarp) out[t] = pad;
  T* weights = attention != nullptr ? attention + which * v.max_length * v.source_time : nullptr;
  if (weights != nullptr) {
    for (std::int64_t i = length * v.source_time + lane; i < v.max_length * v.source_time;
         i += kWarp) {
      weights[i] = T{0};
    }
  }
  std::int64_t row = v.best_rows[which];
  for (std::int64_t t = length - 1; t >= 0; --t) {
    if (lane == 0) out[t] = v.history_tokens[t * v.rows() + row];
    row = v.history_parents[t * v.rows() + row];
    if (weights == nullptr) continue;
    const T* from =
        static_cast<const T*>(v.history_attention) + (t * v.rows() + row) * v.source_time;
    for (std::int64_t i = lane; i < v.source_time; i += kWarp) {
      weights[t * v.source_time + i] = from[i];
    }
  }
}

}  // namespace

void trace_back(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                const Tensor& attention) {
  const View view(state);
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::cuda::launch(stream, "trace a beam search back", trace_back_kernel<T>,
                          static_cast<unsigned>(view.inputs * view.nbest), kWarp, 0, view,
                          rules.pad, tokens.data_as<std::int32_t>(),
                          state.extent.attention ? attention.data_as<T>() : nullptr);
  });
}

}  // namespace sluice::kernels::beam_search::cuda
