#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/tokenize.h"
#include "decoding/constraints.h"

namespace sluice::api {

/// Words that no answer holds, as tokens. A word that the vocabulary can't spell is left out, for
/// no answer can hold it. Throws ErrorCode::kInvalidArgument for an empty text, kFormat for one
/// that is not UTF-8.
decoding::Constraints tokenize_banned(std::span<const std::string> banned, std::int64_t no_repeat,
                                      const data::Tokenizer& tokenizer);

/// Words that answers of an input hold, as tokens, each sequence once. `whose` ends the sentences
/// of errors: " of input 3", or nothing. Throws ErrorCode::kInvalidArgument, with the word, for
/// more than decoding::kMostForced, for text that is empty, that the vocabulary can't spell or that
/// the constraints rule out.
decoding::TokenSequences tokenize_forced(std::span<const std::string> words, std::string_view whose,
                                         const data::Tokenizer& tokenizer,
                                         const decoding::Constraints& constraints);

/// Throws ErrorCode::kInvalidArgument if an answer of at most `most` tokens with this prefix can't
/// hold all of them one after the other.
void require_room(const decoding::TokenSequences& forced, const std::vector<std::int32_t>& prefix,
                  std::int64_t most, std::string_view whose);

/// Warns, in one line, of those among `all` inputs that have no answer. `kind` is the singular word
/// for one of them.
void warn_of_no_answer(const WarningHandler* warnings, std::span<const std::size_t> inputs,
                       std::size_t all, std::string_view kind = "input");

}  // namespace sluice::api
