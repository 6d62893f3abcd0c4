#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/watch.h"
#include "data/examples.h"
#include "decoding/attention_view.h"
#include "model_files/tokenizers.h"
#include "training/answer_scorer.h"

namespace sluice::training {

using model_files::Tokenizers;
using model_files::Vocabulary;

/// What a model answers to one example.
struct SampleAnswer {
  std::string input;
  std::string answer;
  std::string reference;
  decoding::AttentionView attention = {};  ///< empty for models without
  bool exact = true;  ///< whether only the reference is right; else there is more or less
};

/// How often, in examples or in frames, a class was answered where another was right:
/// counts[right * classes + answered].
struct Confusion {
  std::vector<std::string> classes;
  std::vector<std::int64_t> counts;
};

/// The examples of a run, of any kind of model, as its Task makes them.
struct TrainData {
  Tokenizers tokenizers;
  std::shared_ptr<const data::Examples> train;
  std::shared_ptr<const data::Examples> validation;  ///< null: there are none
  /// Makes what scores the answers to `validation`, anew for each time; none: they can't be scored.
  std::function<std::unique_ptr<AnswerScorer>()> scorer;
  /// Answers of a model to at most so many of the examples to validate on; none: the kind of model
  /// gives nothing to read, or there are no such examples.
  std::function<std::vector<SampleAnswer>(const runtime::Context&, const models::Model&,
                                          std::int64_t count)>
      samples;
  /// Counts all examples to validate on; none: the kind of model gives no class.
  std::function<Confusion(const runtime::Context&, const models::Model&)> confusion;
  std::vector<std::string> notes;  ///< for people, on what was read and what left out
};

}  // namespace sluice::training
