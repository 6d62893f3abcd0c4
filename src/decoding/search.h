#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/step_model.h"
#include "runtime/context.h"

namespace sluice::decoding {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

/// When an input is done.
enum class StopRule {
  /// When no live beam can still beat the worst of the nbest hypotheses kept, whatever it goes on
  /// with: the best hypotheses that this beam width can see, under any length penalty.
  kBestFound,
  /// As kBestFound, but also when `beam` hypotheses have finished: fewer steps under a length
  /// penalty, but a longer hypothesis with a better normalised score may be missed.
  kBeamFull,
};

/// What to search for. Lengths count tokens without eos.
///
/// The search keeps `beam` live prefixes an input. At each step the best continuations by the sum
/// of log p are looked at in order: of the first `beam`, those that end in eos finish; the first
/// `beam` others live on. Ties go to the lower beam, then to the lower token. Every hypothesis ends
/// in eos, for at the maximum length nothing else is allowed, and its score counts log p(eos). Beam
/// 1 is greedy search: it ends with the first eos, whatever the length penalty.
struct SearchOptions {
  std::int64_t beam = 5;
  std::int64_t nbest = 1;  ///< hypotheses kept of an input, at most `beam`
  /// alpha >= 0 of the length penalty of Wu et al. 2016 ("Google's Neural Machine Translation
  /// System", eq. 14): finished hypotheses compete by score / ((5 + length) / 6)^alpha, where here
  /// length counts eos too. 0 is no penalty.
  double length_penalty = 0;
  StopRule stop = StopRule::kBestFound;
  std::int64_t min_length = 0;  ///< eos is not allowed before
  /// An input of S source tokens gets at most
  /// max(1, min_length, min(max_length, floor(max_length_factor * S) + max_length_offset)) tokens.
  std::int64_t max_length = 256;
  double max_length_factor = 2;
  std::int64_t max_length_offset = 20;
  bool allow_unknown = false;  ///< whether unk may be emitted; pad and bos never are
  bool attention = false;      ///< whether to keep the attention of every emitted token
  /// Steps between two looks at the device's count of unfinished inputs; a look waits for the
  /// device. Steps after the last input is done change nothing. 0: 1 where the host runs the
  /// kernels, else 8.
  std::int64_t poll_every = 0;

  /// Throws ErrorCode::kInvalidArgument with the option, its value and what is allowed.
  void validate() const;
  /// Most tokens for an input of this many source tokens.
  std::int64_t max_length_for(std::int64_t source_length) const;
};

/// A finished output of an input.
struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without bos and eos
  double score = 0;                  ///< sum of log p, eos included
  double normalised_score = 0;       ///< score / length penalty
  /// [tokens][source tokens], if asked for: where the step that emitted the token looked.
  std::vector<std::vector<float>> attention;
};

/// Results on the device, contiguous; views valid until the next run of the search. Hypotheses of
/// an input stand best first; where fewer than nbest exist, the rest has length -1.
struct SearchResults {
  std::int64_t inputs = 0;
  std::int64_t max_length = 0;
  Tensor tokens;             ///< int32 [inputs, nbest, max_length], pad after the end
  Tensor lengths;            ///< int32 [inputs, nbest], eos not counted
  Tensor scores;             ///< float64 [inputs, nbest]
  Tensor normalised_scores;  ///< float64 [inputs, nbest]
  Tensor attention;  ///< [inputs, nbest, max_length, source_time], zero after the end; absent
  Tensor faults;     ///< int32 [inputs]: 1 + the step at which the logits had no softmax, or 0
  std::vector<std::int32_t> source_lengths;  ///< as given to run
};

/// Beam search over n inputs x k beams at a time. The whole search lives on the device: per step
/// the model's step, one selection, one reordering. What an input gets does not depend on the
/// others in the batch, to the bit if the model's logits don't.
class BeamSearch {
 public:
  struct Capacity {
    std::int64_t inputs = 0;
    std::int64_t source_time = 0;   ///< most source tokens of an input
    DType dtype = DType::kFloat32;  ///< of the model's logits and attention; or float64
  };

  /// Books all memory. The model must outlive the search and have room for inputs x beam rows.
  /// Throws ErrorCode::kInvalidArgument for options or a capacity that can't be.
  BeamSearch(const Context& context, models::StepModel& model, const SearchOptions& options,
             const Capacity& capacity);
  /// Bytes that it takes of the device.
  static std::size_t bytes(std::int64_t vocabulary, const SearchOptions& options,
                           const Capacity& capacity);
  ~BeamSearch();
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;

  const SearchOptions& options() const;

  /// Decodes the inputs that the model has encoded: source_lengths[i] source tokens each. Waits for
  /// the device only to upload the lengths and to see whether all inputs are done.
  SearchResults run(const Context& context, std::span<const std::int32_t> source_lengths);

  /// Waits and copies results to the host: for each input its hypotheses, best first. Throws
  /// ErrorCode::kNumeric if the logits of an input were NaN or plus infinity, or all minus
  /// infinity.
  std::vector<std::vector<Hypothesis>> fetch(const Context& context,
                                             const SearchResults& results) const;

 private:
  struct Slots;
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::decoding
