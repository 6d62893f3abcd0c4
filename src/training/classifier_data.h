#pragma once

#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Reads the tables that [data] names, makes a tokenizer of the training examples and labels of
/// data.table (or takes those of a checkpoint: `saved` when resuming, else as
/// initial_tokenizers()), and turns the examples into ids. Without data.table, which takes `saved`,
/// TrainData::train stays null. Throws ErrorCode::kInvalidArgument if [data] names too many tables
/// or if no example is left, kFormat with file and line for a label that isn't known or is missing,
/// else as data::read_table and data::train_tokenizer.
TrainData read_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch = {});

}  // namespace sluice::training
