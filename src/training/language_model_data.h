#pragma once

#include <string>
#include <vector>

#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Texts to train a language model on, and to validate it on.
struct LanguageModelText {
  std::vector<std::string> train;
  std::vector<std::string> validation;  ///< may be empty
};

/// Reads data.text and data.validation_text, or holds out of the former what [data] says. Throws
/// ErrorCode::kInvalidArgument if data.text is not set or validation is set twice; as LineReader;
/// with tokenizer.kind smiles ErrorCode::kFormat with file and line of what is none.
LanguageModelText read_language_model_text(const TrainConfig& config);

/// Trains the tokenizer on the training texts, or takes that of a checkpoint (`saved` when
/// resuming, else as initial_tokenizers()), and makes examples: of each text one, of empty ones
/// none; with training.bptt of all texts, empty ones too, running text. Throws
/// ErrorCode::kInvalidArgument if nothing is left.
TrainData make_language_model_data(const TrainConfig& config, const LanguageModelText& text,
                                   const Tokenizers* saved = nullptr);

/// Stretches of running text that stand side by side in a batch, with training.bptt.
std::int64_t stretches_of(const TrainConfig& config);

}  // namespace sluice::training
