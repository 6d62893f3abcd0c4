#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/watch.h"
#include "data/feature_vectors.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Texts to train a language model on, and to validate it on.
struct LanguageModelText {
  std::vector<std::string> train;
  std::vector<std::string> validation;  ///< may be empty
  // Vectors that texts are conditioned on, one each; or none.
  data::FeatureVectors train_features = {};
  data::FeatureVectors validation_features = {};
};

/// Reads data.text and data.validation_text, or holds out of the former what [data] says, and the
/// vectors of data.features likewise. Throws ErrorCode::kInvalidArgument if data.text is not set or
/// validation is set twice; kFormat if there are not as many vectors as texts; as LineReader and
/// read_feature_vectors; with tokenizer.kind smiles ErrorCode::kFormat with file and line of what
/// is none. Here and below `watch` is told what takes a while.
LanguageModelText read_language_model_text(const TrainConfig& config,
                                           const base::Watch& watch = {});

/// The texts to validate on that data.validation_text names, segmented; errors likewise.
std::vector<std::string> read_validation_texts(const TrainConfig& config);
/// The same with their vectors.
LanguageModelText read_language_model_validation(const TrainConfig& config);

/// The tokenizer alone, made of these texts or of config.initial's checkpoint.
Tokenizers make_language_model_tokenizers(const TrainConfig& config,
                                          std::span<const std::string> texts,
                                          const base::Watch& watch = {});

/// "training: 7 texts, 30 tokens (1 unknown); left out: 0 too long, 0 empty"
std::string text_summary(const char* part, std::int64_t texts, std::int64_t tokens,
                         std::int64_t unknown, std::int64_t too_long, std::int64_t empty);

/// Trains the tokenizer on the training texts, or takes that of a checkpoint (`saved` when
/// resuming, else as initial_tokenizers()), and makes examples: of each text one, of empty ones
/// none; with training.bptt of all texts, empty ones too, running text. Throws
/// ErrorCode::kInvalidArgument if nothing is left. Without texts to train on, TrainData::train
/// stays null.
TrainData make_language_model_data(const TrainConfig& config, const LanguageModelText& text,
                                   const Tokenizers* saved = nullptr,
                                   const base::Watch& watch = {});

/// Stretches of running text that stand side by side in a batch, with training.bptt.
std::int64_t stretches_of(const TrainConfig& config);

}  // namespace sluice::training
