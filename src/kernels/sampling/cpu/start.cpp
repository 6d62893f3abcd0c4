#include <algorithm>

#include "base/check.h"
#include "kernels/sampling/cpu/sampling.h"

namespace sluice::kernels::sampling::cpu {
namespace {

void start_input(const Rules& rules, const State& state, std::int64_t input) {
  const Extent& e = state.extent;
  const std::int32_t longest = state.max_lengths.data_as<const std::int32_t>()[input];
  const std::int32_t least = rules.force_end ? 0 : 1;
  SLUICE_CHECK(longest >= least && longest <= e.max_length,
               "sampling start: the maximum length of input {} is {}, not in {}..{}", input,
               longest, least, e.max_length);
  std::fill_n(state.input_of_row.data_as<std::int32_t>() + input * e.samples, e.samples,
              static_cast<std::int32_t>(input));
}

void start_rows(const Rules& rules, const State& state) {
  const std::int64_t rows = state.extent.rows();
  std::fill_n(state.tokens.data_as<std::int32_t>(), rows, rules.bos);
  std::fill_n(state.status.data_as<std::int32_t>(), rows, std::int32_t{kLive});
  std::fill_n(state.lengths.data_as<std::int32_t>(), rows, 0);
  std::fill_n(state.scores.data_as<double>(), rows, 0.0);
  std::fill_n(state.emitted.data_as<std::int32_t>(), state.emitted.element_count(), rules.pad);
}

}  // namespace

void start(Stream& stream, const Rules& rules, const State& state) {
  stream.launch([rules, state] {
    *state.step.data_as<std::int32_t>() = *state.first_step.data_as<std::int32_t>() = 0;
    *state.unfinished.data_as<std::int32_t>() = static_cast<std::int32_t>(state.extent.rows());
    *state.arrivals.data_as<std::int32_t>() = 0;
    std::fill_n(state.faults.data_as<std::int32_t>(), state.extent.inputs, 0);
    for (std::int64_t i = 0; i < state.extent.inputs; ++i) start_input(rules, state, i);
    start_rows(rules, state);
  });
  if (state.extent.attention) {
    stream.fill_zero(state.attention.data(), state.attention.byte_size());
  }
}

}  // namespace sluice::kernels::sampling::cpu
