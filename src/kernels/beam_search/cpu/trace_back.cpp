#include <algorithm>

#include "base/dtype.h"
#include "kernels/beam_search/cpu/beam_search.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

template <typename T>
void trace_one(const Rules& rules, const State& state, std::int64_t which, const Tensor& tokens,
               const Tensor& attention) {
  const Extent& e = state.extent;
  const std::int64_t rows = e.rows();
  const std::int64_t length =
      std::max(state.best_lengths.data_as<const std::int32_t>()[which], std::int32_t{0});
  const auto* history_tokens = state.history_tokens.data_as<const std::int32_t>();
  const auto* history_parents = state.history_parents.data_as<const std::int32_t>();
  auto* out = tokens.data_as<std::int32_t>() + which * e.max_length;
  std::fill(out + length, out + e.max_length, rules.pad);
  T* weights =
      e.attention ? attention.data_as<T>() + which * e.max_length * e.source_time : nullptr;
  if (weights != nullptr) {
    std::fill(weights + length * e.source_time, weights + e.max_length * e.source_time, T{0});
  }
  std::int64_t row = state.best_rows.data_as<const std::int32_t>()[which];
  for (std::int64_t t = length - 1; t >= 0; --t) {
    out[t] = history_tokens[t * rows + row];
    row = history_parents[t * rows + row];
    if (weights == nullptr) continue;
    const T* from = state.history_attention.data_as<const T>() + (t * rows + row) * e.source_time;
    std::copy(from, from + e.source_time, weights + t * e.source_time);
  }
}

template <typename T>
void run(const Rules& rules, const State& state, const Tensor& tokens, const Tensor& attention) {
  const std::int64_t count = state.extent.inputs * state.extent.nbest;
#pragma omp parallel for schedule(static) if (state.extent.attention)
  for (std::int64_t which = 0; which < count; ++which) {
    trace_one<T>(rules, state, which, tokens, attention);
  }
}

}  // namespace

void trace_back(Stream& stream, const Rules& rules, const State& state, const Tensor& tokens,
                const Tensor& attention) {
  base::dispatch_master(state.extent.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([=] { run<T>(rules, state, tokens, attention); });
  });
}

}  // namespace sluice::kernels::beam_search::cpu
