#pragma once

#include <cstdint>
#include <limits>

#include "kernels/beam_search/state.h"

namespace sluice::kernels::beam_search::cpu {

inline constexpr double kNone = -std::numeric_limits<double>::infinity();

/// The part of a state that belongs to one input, as pointers.
struct InputView {
  std::int64_t first_row;
  std::int32_t* done;
  std::int32_t* fault;
  std::int32_t max_length;
  std::int32_t* tokens;   ///< [beam]
  std::int32_t* parents;  ///< [beam]
  double* scores;         ///< [beam]
  std::int32_t* finished;
  double* best_scores;      ///< [nbest]
  double* best_normalised;  ///< [nbest]
  std::int32_t* best_lengths;
  std::int32_t* best_rows;
  const double* candidate_scores;        ///< [beam, beam + 1]
  const std::int32_t* candidate_tokens;  ///< [beam, beam + 1]

  InputView(const State& s, std::int64_t input)
      : first_row(input * s.extent.beam),
        done(s.done.data_as<std::int32_t>() + input),
        fault(s.faults.data_as<std::int32_t>() + input),
        max_length(s.max_lengths.data_as<std::int32_t>()[input]),
        tokens(s.tokens.data_as<std::int32_t>() + first_row),
        parents(s.parents.data_as<std::int32_t>() + first_row),
        scores(s.scores.data_as<double>() + first_row),
        finished(s.finished.data_as<std::int32_t>() + input),
        best_scores(s.best_scores.data_as<double>() + input * s.extent.nbest),
        best_normalised(s.best_normalised.data_as<double>() + input * s.extent.nbest),
        best_lengths(s.best_lengths.data_as<std::int32_t>() + input * s.extent.nbest),
        best_rows(s.best_rows.data_as<std::int32_t>() + input * s.extent.nbest),
        candidate_scores(s.candidate_scores.data_as<double>() + first_row * (s.extent.beam + 1)),
        candidate_tokens(s.candidate_tokens.data_as<std::int32_t>() +
                         first_row * (s.extent.beam + 1)) {}
};

}  // namespace sluice::kernels::beam_search::cpu
