#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/sampling/sampling.h"

namespace sluice::kernels::sampling::cuda {

/// A state as plain pointers, for kernels.
struct View {
  std::int64_t inputs, samples, max_length, prefix_time, source_time;
  std::int32_t *step, *first_step, *unfinished;
  const std::int32_t *max_lengths, *input_ids, *prefix, *prefix_lengths;
  std::int32_t *faults, *input_of_row, *tokens, *status, *lengths;
  double* scores;
  std::int32_t* emitted;
  void* attention;  ///< or null
  std::int32_t* arrivals;

  explicit View(const State& s)
      : inputs(s.extent.inputs),
        samples(s.extent.samples),
        max_length(s.extent.max_length),
        prefix_time(s.extent.prefix_time),
        source_time(s.extent.source_time),
        step(s.step.data_as<std::int32_t>()),
        first_step(s.first_step.data_as<std::int32_t>()),
        unfinished(s.unfinished.data_as<std::int32_t>()),
        max_lengths(s.max_lengths.data_as<const std::int32_t>()),
        input_ids(s.input_ids.data_as<const std::int32_t>()),
        prefix(s.prefix.data_as<const std::int32_t>()),
        prefix_lengths(s.prefix_lengths.data_as<const std::int32_t>()),
        faults(s.faults.data_as<std::int32_t>()),
        input_of_row(s.input_of_row.data_as<std::int32_t>()),
        tokens(s.tokens.data_as<std::int32_t>()),
        status(s.status.data_as<std::int32_t>()),
        lengths(s.lengths.data_as<std::int32_t>()),
        scores(s.scores.data_as<double>()),
        emitted(s.emitted.data_as<std::int32_t>()),
        attention(s.extent.attention ? s.attention.data() : nullptr),
        arrivals(s.arrivals.data_as<std::int32_t>()) {}

  __host__ __device__ std::int64_t rows() const { return inputs * samples; }
  __device__ std::int64_t longest(std::int64_t input, std::int64_t least) const {
    const std::int64_t length = max_lengths[input] < least ? least : max_lengths[input];
    return length < max_length ? length : max_length;
  }
  /// The prefix's token of a step, or -1.
  __device__ std::int32_t forced(std::int64_t input, std::int64_t at) const {
    if (at >= prefix_time || at >= prefix_lengths[input]) return -1;
    return prefix[input * prefix_time + at];
  }
};

}  // namespace sluice::kernels::sampling::cuda
