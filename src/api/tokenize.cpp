#include "api/tokenize.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

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

void warn_of_unknown(const TokenIds& inputs, const data::Tokenizer& tokenizer) {
  const auto is_unknown = [](const std::vector<std::int32_t>& ids) {
    return !ids.empty() &&
           std::ranges::all_of(ids, [](std::int32_t id) { return id == data::kUnknownId; });
  };
  const auto first = std::ranges::find_if(inputs, is_unknown);
  if (first == inputs.end()) return;
  const std::string which = inputs.size() == 1
                                ? "the input holds"
                                : fmt::format("{} of {} inputs (first input {}) hold",
                                              std::ranges::count_if(inputs, is_unknown),
                                              inputs.size(), first - inputs.begin() + 1);
  base::log(base::LogLevel::kWarning,
            "{} no token of the model's vocabulary ({}, {} ids), which was made of its training "
            "examples: what it says can't show in the answer",
            which, tokenizer.kind(), tokenizer.size());
}

TokenIds tokenize_prefixes(std::span<const std::string> texts, std::size_t inputs,
                           const data::Tokenizer& tokenizer, std::int64_t most) {
  SLUICE_CHECK(texts.empty() || texts.size() == inputs,
               "there are {} prefixes for {} inputs; give none, or one for each", texts.size(),
               inputs);
  TokenIds prefixes;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      prefixes.push_back(tokenizer.encode(texts[i]));
    } catch (const Error& error) {
      base::fail(error.code(), "the prefix of input {}: {}", i + 1, error.what());
    }
    const auto& ids = prefixes.back();
    SLUICE_CHECK(static_cast<std::int64_t>(ids.size()) <= most,
                 "the prefix '{}' of input {} has {} tokens, more than the {} of max_length",
                 texts[i], i + 1, ids.size(), most);
    const auto unknown = std::find(ids.begin(), ids.end(), data::kUnknownId);
    SLUICE_CHECK(unknown == ids.end(),
                 "the prefix '{}' of input {}: the vocabulary of answers, {}, lacks its token {}",
                 texts[i], i + 1, tokenizer.kind(), unknown - ids.begin() + 1);
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
