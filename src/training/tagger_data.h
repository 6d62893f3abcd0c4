#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/conll.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Reads the CoNLL files that [data] names and holds out what it says. Words and labels are `saved`
/// (of a run that is resumed) if given, else as initial_tokenizers() or from the training
/// sentences. Throws ErrorCode::kInvalidArgument if [data] names no file or too many, else as
/// data/conll.h and data/tagged_examples.h.
TrainData read_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                           const base::Watch& watch = {});

/// Refuses a [data] that names no file, or both one to validate on and examples to hold out.
void require_conll(const DataConfig& config);
/// Of data.validation_conll; nothing if it isn't set.
std::vector<data::TaggedSentence> read_tagger_validation(const DataConfig& config);
/// The columns and the scheme of labels that [data] names.
data::ConllOptions conll_options(const DataConfig& config);
/// The words of these sentences.
std::shared_ptr<const data::Tokenizer> make_tagger_vocabulary(
    const TokenizerConfig& config, std::span<const data::TaggedSentence> sentences,
    const base::Watch& watch);
/// A line for people on what was read of a part.
std::string tagger_summary(const char* part, std::int64_t kept, std::int64_t tokens,
                           std::int64_t unknown, std::int64_t too_long);
/// Sentences of the file `path` to validate on, with vocabulary and labels of `result`, and what is
/// made of them; nothing if there are none.
void add_tagger_validation(const TrainConfig& config, const std::string& path,
                           std::span<const data::TaggedSentence> sentences, TrainData& result);

}  // namespace sluice::training
