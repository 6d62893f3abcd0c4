#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace sluice::data {

/// One id a Unicode code point, spaces among them, so that decode(encode(text)) is `text` where the
/// vocabulary is complete. Errors as train_word_tokenizer().
std::unique_ptr<Tokenizer> train_char_tokenizer(std::span<const std::string> lines,
                                                const VocabularyOptions& options = {});

/// From what Tokenizer::serialize() calls the payload; load_tokenizer() calls this.
std::unique_ptr<Tokenizer> parse_char_tokenizer(std::string_view payload);

}  // namespace sluice::data
