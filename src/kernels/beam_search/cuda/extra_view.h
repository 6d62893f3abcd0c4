#pragma once

#include "kernels/beam_search/cuda/view.h"
#include "kernels/beam_search/forced.h"

namespace sluice::kernels::beam_search::cuda {

/// A number of each element, or null.
template <typename Number>
Number* data_or_null(const Tensor& tensor) {
  return tensor ? tensor.data_as<Number>() : nullptr;
}

/// A state with its extras as plain pointers, null where it has none, and what a step heeds.
struct ExtraView : View {
  std::int64_t width, phrases, phrase_time;
  const std::int32_t *phrase_tokens, *phrase_lengths;
  std::int32_t *progress, *candidate_left, *bank_uses;
  const std::int32_t* source_lengths;
  double* coverage;
  const std::int32_t* input_ids;
  double *perturbed, *log_q, *noisy, *candidate_log_q;
  double* candidate_keys;  ///< the scores if there are no others
  const std::int32_t* mask;
  double coverage_penalty, diversity, temperature;
  std::uint64_t seed;

  ExtraView(const State& s, const Extras& extras)
      : View(s),
        width(s.extent.width()),
        phrases(s.extent.phrases),
        phrase_time(s.extent.phrase_time),
        phrase_tokens(data_or_null<const std::int32_t>(s.phrase_tokens)),
        phrase_lengths(data_or_null<const std::int32_t>(s.phrase_lengths)),
        progress(data_or_null<std::int32_t>(s.progress)),
        candidate_left(data_or_null<std::int32_t>(s.candidate_left)),
        bank_uses(data_or_null<std::int32_t>(s.bank_uses)),
        source_lengths(data_or_null<const std::int32_t>(s.source_lengths)),
        coverage(data_or_null<double>(s.coverage)),
        input_ids(data_or_null<const std::int32_t>(s.input_ids)),
        perturbed(data_or_null<double>(s.perturbed)),
        log_q(data_or_null<double>(s.log_q)),
        noisy(data_or_null<double>(s.noisy)),
        candidate_log_q(data_or_null<double>(s.candidate_log_q)),
        candidate_keys(s.candidate_keys ? s.candidate_keys.data_as<double>() : candidate_scores),
        mask(data_or_null<const std::int32_t>(extras.mask)),
        coverage_penalty(extras.coverage),
        diversity(extras.diversity),
        temperature(extras.temperature),
        seed(extras.seed) {}

  __device__ bool draws() const { return noisy != nullptr; }
  __device__ Phrases phrases_of(std::int64_t input) const {
    return {phrase_tokens + input * phrases * phrase_time, phrase_lengths + input * phrases,
            phrases, phrase_time};
  }
  /// As of so many steps.
  __device__ std::int32_t* progress_of(std::int64_t at, std::int64_t row) const {
    return progress + (at % 2 * rows() + row) * phrases;
  }
  __device__ double* coverage_of_row(std::int64_t at, std::int64_t row) const {
    return coverage + (at % 2 * rows() + row) * source_time;
  }
};

}  // namespace sluice::kernels::beam_search::cuda
