#pragma once

#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Reads the sequences and targets that [data] names. Targets are, as [model] has it,
///
///   values of each frame       arrays as those of the features, of the same times
///   values of a sequence       one .npy array [sequences] or [sequences, values]
///   classes of each frame      integers from 0 on: arrays [time] or [sequences, time]
///   classes of a sequence      one .npy array of integers, or a text file with a label a line
///
/// Classes are the labels of the training examples: integers up to the largest, or names in byte
/// order (those of `saved`, if given). Sequences without frames, and those that are too long, are
/// left out. Without data.features, which takes `saved`, TrainData::train stays null. Throws
/// ErrorCode::kFormat, with the file and what in it, if targets don't fit the
/// sequences or a label isn't known; kInvalidArgument if [data] names too little or too much or if
/// no sequence is left; and as data/frames.h.
TrainData read_features_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch = {});

}  // namespace sluice::training
