#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace sluice::api {

using TokenIds = std::vector<std::vector<std::int32_t>>;

/// Ids of each input; text that is not UTF-8 is refused with its number, from 1.
TokenIds tokenize(std::span<const std::string> texts, const data::Tokenizer& tokenizer);

/// Warns, in one line, of inputs that have tokens but none that the vocabulary knows: answers to
/// them are to nothing that they say.
void warn_of_unknown(const TokenIds& inputs, const data::Tokenizer& tokenizer);

/// Ids of what answers are to begin with: none, or one for each input. Refused with the text and
/// the input's number, from 1, is what the vocabulary lacks, for no answer can begin with it, and
/// what has more than `most` tokens.
TokenIds tokenize_prefixes(std::span<const std::string> texts, std::size_t inputs,
                           const data::Tokenizer& tokenizer, std::int64_t most);

/// Tokens as the vocabulary writes them.
std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer,
                                   std::span<const std::int32_t> ids);

}  // namespace sluice::api
