#pragma once

#include <cstdint>
#include <vector>

#include "runtime/context.h"

namespace sluice::decoding {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

/// An output of an input.
struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without bos and eos
  double score = 0;                  ///< sum of log p, eos included
  /// Hypotheses of a search compete by it: score / length penalty, plus coverage if asked for. A
  /// sample has its score here; one drawn without replacement its perturbed log-probability.
  double normalised_score = 0;
  /// [tokens][source tokens], if asked for: where the step that emitted the token looked.
  std::vector<std::vector<float>> attention;
  bool ended = true;  ///< with eos; else a sample that was cut, whose score counts no eos
};

/// What a search has room for at a time.
struct SearchCapacity {
  std::int64_t inputs = 0;
  std::int64_t source_time = 0;   ///< most source tokens of an input
  DType dtype = DType::kFloat32;  ///< of the model's logits and attention; or float64
  std::int64_t prefix_time = 0;   ///< most tokens of a prefix
  std::int64_t phrases = 0;       ///< most forced sequences of an input
  std::int64_t phrase_time = 0;   ///< most tokens of one
};

/// Results on the device, contiguous; views valid until the next run of the search. Hypotheses of
/// an input stand best first, samples by number; where fewer exist than asked for, length is -1.
struct SearchResults {
  std::int64_t inputs = 0;  ///< of the tensors; those of groups stand next to each other
  std::int64_t groups = 1;  ///< searches of each input, whose results `fetch` joins
  std::int64_t nbest = 0;   ///< most hypotheses of all groups of an input
  std::int64_t max_length = 0;
  Tensor tokens;             ///< int32 [inputs, nbest, max_length], pad after the end
  Tensor lengths;            ///< int32 [inputs, nbest], eos not counted
  Tensor scores;             ///< float64 [inputs, nbest]
  Tensor normalised_scores;  ///< float64 [inputs, nbest]
  Tensor attention;  ///< [inputs, nbest, max_length, source_time], zero after the end; absent
  Tensor status;     ///< int32 [inputs, nbest]: kernels::sampling::Status; absent: all ended
  Tensor faults;     ///< int32 [inputs]: 1 + the step at which the logits had no softmax, or 0
  std::vector<std::int32_t> source_lengths;  ///< as given to run
};

/// Waits and copies results to the host: for each input its hypotheses. Throws ErrorCode::kNumeric
/// if the logits of an input were NaN or plus infinity, or all minus infinity. An input has none if
/// nothing that its constraints allow has ended.
std::vector<std::vector<Hypothesis>> fetch(const Context& context, const SearchResults& results);

}  // namespace sluice::decoding
