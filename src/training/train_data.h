#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/examples.h"
#include "training/answer_scorer.h"
#include "training/tokenizers.h"

namespace sluice::training {

/// The examples of a run, of any kind of model, as its Task makes them.
struct TrainData {
  Tokenizers tokenizers;
  std::shared_ptr<const data::Examples> train;
  std::shared_ptr<const data::Examples> validation;  ///< null: there are none
  /// Makes what scores the answers to `validation`, anew for each time; none: they can't be scored.
  std::function<std::unique_ptr<AnswerScorer>()> scorer;
  std::vector<std::string> notes;  ///< for people, on what was read and what left out
};

}  // namespace sluice::training
