#pragma once

#include <vector>

#include "data/corpus.h"
#include "training/checkpoint.h"
#include "training/train_config.h"

namespace sluice::training {

/// Examples as text; `validation` may be empty.
struct TextData {
  std::vector<data::TextPair> train;
  std::vector<data::TextPair> validation;
};

/// Examples as ids.
struct TrainData {
  Tokenizers tokenizers;
  data::PairCorpus train;
  data::PairCorpus validation;          ///< may be empty
  std::vector<std::string> references;  ///< the targets of `validation` as text
  data::CorpusReport train_report;
  data::CorpusReport validation_report;
};

/// Reads the files that [data] names and holds out what it says. Throws
/// ErrorCode::kInvalidArgument if it names none or too many, else as data/corpus.h.
TextData read_text_data(const DataConfig& config);

/// Trains the tokenizers on the training examples, or takes those of a checkpoint (`saved` when
/// resuming, else as initial_tokenizers()), and turns the examples into ids. Errors as
/// data::train_tokenizer, initial_tokenizers and data::make_corpus.
TrainData make_train_data(const TrainConfig& config, const TextData& text,
                          const Tokenizers* saved = nullptr);

}  // namespace sluice::training
