#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/beam_search/beam_search.h"
#include "kernels/beam_search/cpu/views.h"
#include "kernels/beam_search/kept.h"

/// Parts of a step that plain searches and those with extras share.
namespace sluice::kernels::beam_search::cpu {

inline Finished finished(const Rules& rules, double score, std::int32_t length, std::int32_t row) {
  return {score, score / length_penalty(length + 1, rules.length_penalty), length, row};
}

inline Kept kept_of(const InputView& view, std::int64_t nbest) {
  return {view.best_scores, view.best_normalised, view.best_lengths, view.best_rows, nbest};
}

inline void clear_rows(const Rules& rules, const InputView& view, std::int64_t from,
                       std::int64_t to) {
  for (std::int64_t b = from; b < to; ++b) {
    view.scores[b] = kNone;
    view.tokens[b] = rules.pad;
    view.parents[b] = static_cast<std::int32_t>(view.first_row + b);
  }
}

/// Rows of an input may be continued by different threads.
inline void note_fault(const State& state, std::int32_t step, std::int64_t input) {
  auto* fault = state.faults.data_as<std::int32_t>() + input;
#pragma omp atomic write
  *fault = step + 1;
}

/// Where the step looked, by row as it was when the model took the step.
template <typename T>
void record_attention(const State& state, const Tensor& attention, std::int32_t step,
                      std::int64_t row) {
  const Extent& e = state.extent;
  if (!e.attention || step >= e.max_length) return;
  auto* to = state.history_attention.data_as<T>() + (step * e.rows() + row) * e.source_time;
  std::memcpy(to, attention.data_as<const T>() + row * e.source_time,
              static_cast<std::size_t>(e.source_time) * sizeof(T));
}

/// Counts the inputs that aren't done, and the step.
inline void end_step(const State& state, std::int32_t step) {
  const std::int64_t inputs = state.extent.inputs;
  const auto* done = state.done.data_as<const std::int32_t>();
  *state.unfinished.data_as<std::int32_t>() =
      static_cast<std::int32_t>(std::count(done, done + inputs, 0));
  std::fill_n(state.step.data_as<std::int32_t>(), inputs, step + 1);
}

}  // namespace sluice::kernels::beam_search::cpu
