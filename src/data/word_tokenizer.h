#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace sluice::data {

/// Words between ASCII white space, as they stand: no lower-casing, punctuation stays where it is.
/// decode() joins with one space. Throws ErrorCode::kFormat if a line is not valid UTF-8 and
/// ErrorCode::kInvalidArgument if no word is left for the vocabulary.
std::unique_ptr<Tokenizer> train_word_tokenizer(std::span<const std::string> lines,
                                                const VocabularyOptions& options = {});

/// From what Tokenizer::serialize() calls the payload; load_tokenizer() calls this.
std::unique_ptr<Tokenizer> parse_word_tokenizer(std::string_view payload);

}  // namespace sluice::data
