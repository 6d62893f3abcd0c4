#include "data/train_tokenizer.h"

#include "base/check.h"
#include "data/char_tokenizer.h"
#include "data/smiles_tokenizer.h"
#include "data/word_tokenizer.h"

namespace sluice::data {

std::unique_ptr<Tokenizer> train_tokenizer(std::span<const std::string> lines,
                                           const TokenizerOptions& options) {
  if (options.kind == "sentencepiece") return train_sentencepiece(lines, options.sentencepiece);
  if (options.kind == "words") return train_word_tokenizer(lines, options.vocabulary);
  if (options.kind == "word_shapes") {
    return train_word_shape_tokenizer(lines, options.vocabulary);
  }
  if (options.kind == "characters") return train_char_tokenizer(lines, options.vocabulary);
  if (options.kind == "smiles") return train_smiles_tokenizer(lines, options.vocabulary);
  base::fail(ErrorCode::kInvalidArgument,
             "unknown tokenizer '{}'; use sentencepiece, words, word_shapes, characters or smiles",
             options.kind);
}

}  // namespace sluice::data
