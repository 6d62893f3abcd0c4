#pragma once

#include <string>
#include <vector>

#include "data/frame_corpus.h"
#include "training/train_config.h"

namespace sluice::training {

/// Sequences of frames with their targets, as a pair of files has them.
struct FeatureExamples {
  data::FrameCorpus corpus;
  std::vector<std::string> names;  ///< of the label of each sequence; empty: corpus.labels are it
  /// For people: which features the first targets belong to, if only features have names; or empty.
  std::string note;
};

/// Classes are below it: bounds what a wrong label makes of their number.
constexpr std::int64_t kMostFeatureClasses = 1'000'000;

/// Reads the sequences of `features` and what `targets` has of each, of the kind that model.target
/// and model.pooling say (read_features_data). Where both hold several arrays, targets are those of
/// the same name, else those in the same place. Throws ErrorCode::kFormat, with the file and what
/// in it, if one has no partner or if they don't fit each other; and as data/frames.h.
FeatureExamples read_feature_examples(const ModelConfig& model, const std::string& features,
                                      const std::string& targets);

}  // namespace sluice::training
