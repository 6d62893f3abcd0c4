#include <algorithm>

#include "kernels/beam_search/cpu/beam_search.h"

namespace sluice::kernels::beam_search::cpu {

void record(Stream& stream, const State& state, const StepRecord& into) {
  stream.launch([state, into] {
    if (state.extent.inputs == 0) return;
    const std::int64_t step = *state.step.data_as<const std::int32_t>() - 1;
    const std::int64_t rows = state.extent.rows();
    if (step < 0 || step >= into.tokens.size(0)) return;
    auto* taken = into.taken.data_as<std::int32_t>();
    if (step == 0) taken[1] = 0;
    if (taken[1] == 0) taken[0] = static_cast<std::int32_t>(step + 1);
    taken[1] = *state.unfinished.data_as<const std::int32_t>() == 0 ? 1 : 0;
    const auto add = [&]<typename T>(const Tensor& from, const Tensor& to, T /*type*/) {
      std::copy_n(from.data_as<const T>(), rows, to.data_as<T>() + step * rows);
    };
    add(state.tokens, into.tokens, std::int32_t{});
    add(state.parents, into.parents, std::int32_t{});
    add(state.scores, into.scores, double{});
  });
}

}  // namespace sluice::kernels::beam_search::cpu
