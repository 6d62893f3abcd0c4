#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "sluice/warnings.h"

namespace sluice::api {

using TokenIds = std::vector<std::vector<std::int32_t>>;

/// Ids of each input; text that is not UTF-8 is refused with its number, from 1.
TokenIds tokenize(std::span<const std::string> texts, const data::Tokenizer& tokenizer);

/// Ids of the tokens of sentence `index`, counted from 0. Throws ErrorCode::kFormat for a token
/// that is empty, holds white space or is not UTF-8, with its place counted from 1.
std::vector<std::int32_t> tokenize_sentence(std::span<const std::string> tokens, std::size_t index,
                                            const data::Tokenizer& tokenizer);

/// Warns, in one line, of tokens that the vocabulary doesn't know: how many there are, and in how
/// many texts none but such. `what` calls the texts: "input"; `warnings` as base/warn.h.
void warn_of_unknown(const WarningHandler* warnings, const TokenIds& texts,
                     const data::Tokenizer& tokenizer, std::string_view what = "input");

/// Ids of what an output is to begin with, which errors call `name`. Refused is what the vocabulary
/// lacks, for no output can begin with it, and what has more than `most` tokens.
std::vector<std::int32_t> tokenize_prefix(const std::string& text, std::string_view name,
                                          const data::Tokenizer& tokenizer, std::int64_t most);
/// The same of none, or one for each input, which errors name by its number, from 1.
TokenIds tokenize_prefixes(std::span<const std::string> texts, std::size_t inputs,
                           const data::Tokenizer& tokenizer, std::int64_t most);

/// Tokens as the vocabulary writes them.
std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer,
                                   std::span<const std::int32_t> ids);

}  // namespace sluice::api
