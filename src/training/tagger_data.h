#pragma once

#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Reads the CoNLL files that [data] names and holds out what it says. Words and labels are `saved`
/// (of a run that is resumed) if given, else as initial_tokenizers() or from the training
/// sentences. Without data.conll, which takes `saved`, TrainData::train stays null. Throws
/// ErrorCode::kInvalidArgument if [data] names too many files, else as data/conll.h and
/// data/tagged_examples.h.
TrainData read_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                           const base::Watch& watch = {});

}  // namespace sluice::training
