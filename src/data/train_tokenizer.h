#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace sluice::data {

/// Which tokenizer to train, as a configuration says it.
struct TokenizerOptions {
  std::string kind =
      "sentencepiece";  ///< "sentencepiece", "words", "word_shapes", "characters", "smiles"
  VocabularyOptions vocabulary = {};  ///< of all but sentencepiece
  SentencePieceOptions sentencepiece = {};
};

/// Throws ErrorCode::kInvalidArgument on an unknown kind, else as the kind's own function.
std::unique_ptr<Tokenizer> train_tokenizer(std::span<const std::string> lines,
                                           const TokenizerOptions& options);

}  // namespace sluice::data
