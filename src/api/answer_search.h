#pragma once

#include <variant>

#include "data/tokenizer.h"
#include "decoding/sampling.h"
#include "decoding/search.h"
#include "sluice/sequence_model.h"

namespace sluice::api {

/// Options of a search for answers.
using AnswerOptions = std::variant<decoding::SearchOptions, decoding::SamplingOptions>;

/// Throws ErrorCode::kInvalidArgument for options that can't be. `constraints` are the options' as
/// tokens.
AnswerOptions answer_options(const DecodeOptions& options,
                             const decoding::Constraints& constraints);

/// The options of a search that draws samples without replacement: all but the lengths.
decoding::SearchOptions search_without_replacement(const SampleOptions& sample);

/// Answers that are followed at a time, for each input: beams or samples.
std::int64_t rows_of_input(const AnswerOptions& options);
/// "beam 5" or "3 samples".
std::string describe(const AnswerOptions& options);

/// With its tokens as text.
Hypothesis hypothesis_of(const data::Tokenizer& tokenizer, const decoding::Hypothesis& found);

/// All that a search is planned for, as part of a key of runtime::PlanStore: not the seed.
std::string key_of(const AnswerOptions& options);

/// Beam search or sampling.
class AnswerSearch {
 public:
  /// The model must outlive the search and have room for inputs x rows_of_input rows. The memory
  /// that `planner` books must lie in `arena` whenever it runs.
  AnswerSearch(models::StepModel& model, const AnswerOptions& options,
               const decoding::SearchCapacity& capacity, runtime::ArenaPlanner& planner,
               const runtime::Arena& arena);
  /// Bytes that it takes of the device.
  static std::size_t bytes(std::int64_t vocabulary, const AnswerOptions& options,
                           const decoding::SearchCapacity& capacity);

  /// Sets the seed of draws from now on.
  void set_seed(const AnswerOptions& options);
  /// For inputs that the model has encoded; `ids` key the draws' random numbers. Sampling takes
  /// nothing forced. Waits for the answers.
  std::vector<std::vector<decoding::Hypothesis>> run(const runtime::Context& context,
                                                     std::span<const std::int32_t> source_lengths,
                                                     std::span<const std::int32_t> ids,
                                                     decoding::Prefixes prefixes,
                                                     decoding::Forced forced = {});
  /// If it draws samples.
  decoding::Sampling& sampling() { return std::get<decoding::Sampling>(search_); }

 private:
  std::variant<decoding::BeamSearch, decoding::Sampling> search_;
};

}  // namespace sluice::api
