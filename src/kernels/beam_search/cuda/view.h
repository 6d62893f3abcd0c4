#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/beam_search/beam_search.h"

namespace sluice::kernels::beam_search::cuda {

/// A state as plain pointers, for kernels.
struct View {
  std::int64_t inputs, beam, nbest, max_length, source_time, prefix_time, groups;
  std::int32_t *step, *unfinished;
  const std::int32_t *max_lengths, *prefix, *prefix_lengths;
  std::int32_t *done, *faults, *input_of_row, *tokens, *parents;
  double* scores;
  std::int32_t *history_tokens, *history_parents;
  void* history_attention;  ///< or null
  std::int32_t* finished;
  double *best_scores, *best_normalised;
  std::int32_t *best_lengths, *best_rows;
  double* candidate_scores;
  std::int32_t *candidate_tokens, *arrivals;

  explicit View(const State& s)
      : inputs(s.extent.inputs),
        beam(s.extent.beam),
        nbest(s.extent.nbest),
        max_length(s.extent.max_length),
        source_time(s.extent.source_time),
        prefix_time(s.extent.prefix_time),
        groups(s.extent.groups),
        step(s.step.data_as<std::int32_t>()),
        unfinished(s.unfinished.data_as<std::int32_t>()),
        max_lengths(s.max_lengths.data_as<const std::int32_t>()),
        prefix(s.prefix.data_as<const std::int32_t>()),
        prefix_lengths(s.prefix_lengths.data_as<const std::int32_t>()),
        done(s.done.data_as<std::int32_t>()),
        faults(s.faults.data_as<std::int32_t>()),
        input_of_row(s.input_of_row.data_as<std::int32_t>()),
        tokens(s.tokens.data_as<std::int32_t>()),
        parents(s.parents.data_as<std::int32_t>()),
        scores(s.scores.data_as<double>()),
        history_tokens(s.history_tokens.data_as<std::int32_t>()),
        history_parents(s.history_parents.data_as<std::int32_t>()),
        history_attention(s.extent.attention ? s.history_attention.data() : nullptr),
        finished(s.finished.data_as<std::int32_t>()),
        best_scores(s.best_scores.data_as<double>()),
        best_normalised(s.best_normalised.data_as<double>()),
        best_lengths(s.best_lengths.data_as<std::int32_t>()),
        best_rows(s.best_rows.data_as<std::int32_t>()),
        candidate_scores(s.candidate_scores.data_as<double>()),
        candidate_tokens(s.candidate_tokens.data_as<std::int32_t>()),
        arrivals(s.arrivals.data_as<std::int32_t>()) {}

  __host__ __device__ std::int64_t rows() const { return inputs * beam; }
  __device__ std::int64_t longest(std::int64_t input) const {
    const std::int64_t length = max_lengths[input] < 0 ? 0 : max_lengths[input];
    return length < max_length ? length : max_length;
  }
  /// The prefix's token of a step, or -1.
  __device__ std::int32_t forced(std::int64_t input, std::int64_t at) const {
    if (at >= prefix_time || at >= prefix_lengths[input]) return -1;
    return prefix[input * prefix_time + at];
  }
};

/// The score of a row without a prefix.
__device__ inline double no_score() { return -static_cast<double>(INFINITY); }

}  // namespace sluice::kernels::beam_search::cuda
