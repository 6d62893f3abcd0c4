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

/// The same, but what the vocabulary lacks is not one unknown word: it is what it looks like, by
/// word_shape(), where the words of `lines` that are left out have options.min_count such ones.
/// Names that training never saw then differ from other words. The kind is "word_shapes".
std::unique_ptr<Tokenizer> train_word_shape_tokenizer(std::span<const std::string> lines,
                                                      const VocabularyOptions& options = {});

/// What a word looks like: a letter for each run of characters of one class, at most six runs. X
/// stands for an upper case letter, XX for several, x for lower case ones, d for digits, u for all
/// beyond ASCII; others stand for themselves. Of "iPhone6" it is "xXxd", of "@NASA" "@XX".
std::string word_shape(std::string_view word);

/// From what Tokenizer::serialize() calls the payload; load_tokenizer() calls this.
std::unique_ptr<Tokenizer> parse_word_tokenizer(std::string_view payload);
std::unique_ptr<Tokenizer> parse_word_shape_tokenizer(std::string_view payload);

}  // namespace sluice::data
