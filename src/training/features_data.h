#pragma once

#include <set>
#include <string>

#include "training/feature_files.h"
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
/// left out. Throws ErrorCode::kFormat, with the file and what in it, if targets don't fit the
/// sequences or a label isn't known; kInvalidArgument if [data] names too little or too much or if
/// no sequence is left; and as data/frames.h.
TrainData read_features_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch = {});

/// Refuses a [data] that names too little or too much.
void require_features(const DataConfig& files);
/// Of data.validation_features; none if it isn't set.
FeatureExamples read_features_validation(const TrainConfig& config);
/// These names in byte order, or if there are none the numbers up to `largest`.
data::Labels feature_labels(std::set<std::string> names, std::int32_t largest);
/// A line for people on what was read of a part. Throws ErrorCode::kInvalidArgument if nothing is
/// left.
std::string features_summary(const char* part, std::int64_t kept, std::int64_t frames,
                             std::int64_t features, std::int64_t too_long, std::int64_t empty);
/// Sequences to validate on beside those of data.train, with its labels, and what is made of them;
/// nothing if there are none. `targets` is the file that theirs are of.
void add_features_validation(const TrainConfig& config, FeatureExamples held_out,
                             const std::string& targets, TrainData& data);

}  // namespace sluice::training
