#include <algorithm>

#include "base/check.h"
#include "kernels/beam_search/cpu/beam_search.h"
#include "kernels/beam_search/cpu/views.h"

namespace sluice::kernels::beam_search::cpu {
namespace {

void start_input(const Rules& rules, const State& state, std::int64_t input) {
  const Extent& e = state.extent;
  const InputView view(state, input);
  SLUICE_CHECK(view.max_length >= 0 && view.max_length <= e.max_length,
               "beam_search start: the maximum length of input {} is {}, not in 0..{}", input,
               view.max_length, e.max_length);
  *view.done = *view.fault = *view.finished = 0;
  for (std::int64_t b = 0; b < e.beam; ++b) {
    state.input_of_row.data_as<std::int32_t>()[view.first_row + b] =
        static_cast<std::int32_t>(input / e.groups);
    view.tokens[b] = rules.bos;
    view.parents[b] = static_cast<std::int32_t>(view.first_row + b);
    view.scores[b] = b == 0 ? 0.0 : kNone;
  }
  for (std::int64_t j = 0; j < e.nbest; ++j) {
    view.best_scores[j] = view.best_normalised[j] = kNone;
    view.best_lengths[j] = -1;
    view.best_rows[j] = 0;
  }
}

}  // namespace

void start(Stream& stream, const Rules& rules, const State& state) {
  stream.launch([rules, state] {
    const std::int64_t inputs = state.extent.inputs;
    std::fill_n(state.step.data_as<std::int32_t>(), inputs, 0);
    *state.unfinished.data_as<std::int32_t>() = static_cast<std::int32_t>(inputs);
    std::fill_n(state.arrivals.data_as<std::int32_t>(), inputs, 0);
    for (std::int64_t i = 0; i < inputs; ++i) start_input(rules, state, i);
  });
}

}  // namespace sluice::kernels::beam_search::cpu
