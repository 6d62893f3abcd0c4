#pragma once

#include <functional>
#include <span>

#include "api/answer_search.h"
#include "api/kept_plans.h"
#include "models/language_model.h"
#include "models/language_model_decoding.h"
#include "runtime/span.h"
#include "sluice/language_model.h"

namespace sluice::api {

/// Throws ErrorCode::kInvalidArgument, with both widths, if these aren't vectors that a model
/// takes.
void require_features(const models::LanguageModelConfig& config, const FeatureVectors& features);

/// How texts are gone on with; empty functions: they aren't.
struct TextStates {
  std::function<decoding::StreamState()> from;           ///< gives what to go on from
  std::function<void(const decoding::StreamState&)> to;  ///< takes where the texts stand
};

/// Texts of a language model, as GenerateOptions ask for. Throws as LanguageModel::generate.
class TextGeneration {
 public:
  /// The options' texts as tokens.
  struct Texts {
    std::vector<std::int32_t> prefix;
    decoding::Constraints constraints;
    decoding::TokenSequences forced;
  };

  /// All must outlive it. Files of states are left to `states`.
  TextGeneration(const runtime::Context& context, const models::LanguageModel& model,
                 KeptPlans& kept, const GenerateOptions& options, TextStates states, Texts texts);

  std::vector<decoding::Hypothesis> run();

 private:
  struct Plan;

  /// To follow `rows_of_input` texts of as many inputs.
  Plan& plan_for(std::int64_t inputs, const AnswerOptions& options);
  std::vector<decoding::Hypothesis> generate();
  std::vector<decoding::Hypothesis> search();
  std::vector<decoding::Hypothesis> draw();
  std::vector<decoding::Hypothesis> resume(const decoding::StreamState& state);
  decoding::SamplingOptions sampling_options() const;
  decoding::SearchOptions search_options() const;
  /// Vectors that texts are written for; of a model that takes none 1.
  std::int64_t vectors() const;
  /// Makes `count` inputs begin: number i from the vector (first + i) / texts.
  void begin(Plan& plan, std::int64_t first, std::int64_t count, std::int64_t texts) const;
  /// Adds the texts of the next inputs. A model on features gives `wanted` for each vector, so that
  /// their places tell whose they are: missing ones are empty, of score minus infinity.
  void append(std::vector<decoding::Hypothesis>& texts,
              std::vector<std::vector<decoding::Hypothesis>> of_inputs, std::int64_t wanted);
  void keep(const decoding::Sampling& sampling) const;
  /// Does the work of the next batch, as a step of profiles.
  template <typename Work>
  void run_batch(const Work& work) {
    runtime::run_step(context_, "batch", ++batches_, work);
  }

  const runtime::Context& context_;
  const models::LanguageModel& model_;
  KeptPlans& kept_;
  const GenerateOptions& options_;
  std::int64_t batch_;
  TextStates states_;
  Texts texts_;
  std::int64_t batches_ = 0;
  std::size_t inputs_ = 0;              // that `append` was given
  std::vector<std::size_t> without_{};  // those among them without a text
};

}  // namespace sluice::api
