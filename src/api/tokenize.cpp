#include "api/tokenize.h"

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "base/warn.h"
#include "data/tagged_examples.h"
#include "data/utf8.h"

namespace sluice::api {

TokenIds tokenize(std::span<const std::string> texts, const data::Tokenizer& tokenizer) {
  TokenIds ids;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      ids.push_back(tokenizer.encode(texts[i]));
    } catch (const Error& error) {
      base::fail(error.code(), "input {}: {}", i + 1, error.what());
    }
  }
  return ids;
}

std::vector<std::int32_t> tokenize_sentence(std::span<const std::string> tokens, std::size_t index,
                                            const data::Tokenizer& tokenizer) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string place = fmt::format("token {} of sentence {}", i + 1, index + 1);
    data::require_utf8(tokens[i], place);
    if (tokens[i].empty() || tokens[i].find_first_of(" \t\n\v\f\r") != std::string::npos) {
      base::fail(ErrorCode::kFormat, "{} ('{}') is empty or holds white space", place, tokens[i]);
    }
  }
  return data::encode_tokens(tokens, tokenizer);
}

void warn_of_unknown(const WarningHandler* warnings, const TokenIds& texts,
                     const data::Tokenizer& tokenizer, std::string_view what) {
  std::int64_t tokens = 0, unknown = 0, only_such = 0;
  std::size_t first = 0;  // of those with only such, from 1
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int64_t here = std::ranges::count(texts[i], data::kUnknownId);
    tokens += std::ssize(texts[i]);
    unknown += here;
    if (here > 0 && here == std::ssize(texts[i]) && ++only_such == 1) first = i + 1;
  }
  if (unknown == 0) return;
  const bool one = unknown == 1;
  base::warn(warnings,
             "{} of {} in the {} {} not in the model's vocabulary ({}, {} ids), so the model reads "
             "{} as unknown; if {}, train with examples that have {}{}",
             unknown, base::counted(tokens, "token"), what, one ? "is" : "are", tokenizer.kind(),
             tokenizer.size(), one ? "it" : "them", one ? "it matters" : "they matter",
             one ? "it" : "them",
             only_such == 0 || texts.size() == 1
                 ? ""
                 : fmt::format("; {} of {} {}s hold no other (the first is {} {})", only_such,
                               texts.size(), what, what, first));
}

std::vector<std::int32_t> tokenize_prefix(const std::string& text, std::string_view name,
                                          const data::Tokenizer& tokenizer, std::int64_t most) {
  std::vector<std::int32_t> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const Error& error) {
    base::fail(error.code(), "{}: {}", name, error.what());
  }
  SLUICE_CHECK(std::ssize(ids) <= most, "{} has {}, more than the {} of max_length", name,
               base::counted(ids.size(), "token"), most);
  const auto unknown = std::ranges::find(ids, data::kUnknownId);
  SLUICE_CHECK(unknown == ids.end(),
               "{}: the model can't write its token {}, which the vocabulary ({}, {} ids) lacks",
               name, unknown - ids.begin() + 1, tokenizer.kind(), tokenizer.size());
  return ids;
}

TokenIds tokenize_prefixes(std::span<const std::string> texts, std::size_t inputs,
                           const data::Tokenizer& tokenizer, std::int64_t most) {
  SLUICE_CHECK(texts.empty() || texts.size() == inputs, "{} {} for {}; give none, or one for each",
               texts.size(), texts.size() == 1 ? "prefix" : "prefixes",
               base::counted(inputs, "input"));
  TokenIds prefixes;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = fmt::format("the prefix '{}' of input {}", texts[i], i + 1);
    prefixes.push_back(tokenize_prefix(texts[i], name, tokenizer, most));
  }
  return prefixes;
}

std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer,
                                   std::span<const std::int32_t> ids) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

}  // namespace sluice::api
