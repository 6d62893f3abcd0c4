#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/watch.h"
#include "data/corpus.h"
#include "model_files/tokenizers.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Examples of a sequence-to-sequence model as text; `validation` may be empty.
struct TextData {
  std::vector<data::TextPair> train;
  std::vector<data::TextPair> validation;
};

/// The same as ids.
struct Seq2SeqData {
  Tokenizers tokenizers;  ///< source and target
  data::PairCorpus train;
  data::PairCorpus validation;          ///< may be empty
  std::vector<std::string> references;  ///< the targets of `validation` as text
  data::CorpusReport train_report;
  data::CorpusReport validation_report;
};

/// Reads the files that [data] names, holds out what it says and has texts segmented by the
/// commands that it names. Here and below `watch` is told what takes a while. Throws
/// ErrorCode::kInvalidArgument if it names none or too many, else as data/corpus.h.
TextData read_text_data(const DataConfig& config, const base::Watch& watch = {});

/// Trains the tokenizers on the training examples, or takes those of a checkpoint (`saved` when
/// resuming, else as initial_tokenizers()), and turns the examples into ids. Errors as
/// data::train_tokenizer, initial_tokenizers and data::make_corpus. Without examples to train on,
/// Seq2SeqData::train stays empty.
Seq2SeqData make_seq2seq_data(const TrainConfig& config, const TextData& text,
                              const Tokenizers* saved = nullptr, const base::Watch& watch = {});

/// The tokenizers alone, of these pairs; errors likewise.
Tokenizers make_seq2seq_tokenizers(const TrainConfig& config, std::span<const data::TextPair> pairs,
                                   const base::Watch& watch = {});

/// The pairs that data.validation_* name, segmented; none if none are named.
std::vector<data::TextPair> read_validation_pairs(const DataConfig& config);

/// What a Trainer takes. Answers can be scored if there are as many references as examples to
/// validate on.
TrainData to_train_data(const TrainConfig& config, Seq2SeqData data);

/// Both at once.
TrainData make_train_data(const TrainConfig& config, const TextData& text,
                          const Tokenizers* saved = nullptr, const base::Watch& watch = {});

}  // namespace sluice::training
