#include "api/wording.h"

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "base/warn.h"

namespace sluice::api {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const std::string& text, std::string_view name, const data::Tokenizer& tokenizer) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    base::fail(error.code(), "{}: {}", name, error.what());
  }
}

bool holds(std::span<const std::int32_t> tokens, std::span<const std::int32_t> sequence) {
  return !std::ranges::search(tokens, sequence).empty();
}

/// Whether it holds so many tokens in a row twice.
bool repeats(const Ids& tokens, std::int64_t count) {
  const std::span<const std::int32_t> all(tokens);
  const auto length = static_cast<std::size_t>(count);
  for (std::size_t i = 0; count > 0 && i + length < all.size(); ++i) {
    if (holds(all.subspan(i + 1), all.subspan(i, length))) return true;
  }
  return false;
}

}  // namespace

decoding::Constraints tokenize_banned(std::span<const std::string> banned, std::int64_t no_repeat,
                                      const data::Tokenizer& tokenizer) {
  decoding::Constraints constraints;
  constraints.no_repeat = no_repeat;
  for (const std::string& text : banned) {
    const std::string name = fmt::format("the banned '{}'", text);
    Ids ids = encode(text, name, tokenizer);
    SLUICE_CHECK(!ids.empty(), "{} holds no token", name);
    if (std::ranges::find(ids, data::kUnknownId) != ids.end()) continue;
    constraints.banned.push_back(std::move(ids));
  }
  return constraints;
}

decoding::TokenSequences tokenize_forced(std::span<const std::string> words, std::string_view whose,
                                         const data::Tokenizer& tokenizer,
                                         const decoding::Constraints& constraints) {
  SLUICE_CHECK(std::ssize(words) <= decoding::kMostForced,
               "{} words are forced on answers{}; at most {} can be", words.size(), whose,
               decoding::kMostForced);
  decoding::TokenSequences forced;
  for (const std::string& word : words) {
    const std::string name = fmt::format("the forced '{}'{}", word, whose);
    Ids ids = encode(word, name, tokenizer);
    SLUICE_CHECK(!ids.empty(), "{} holds no token", name);
    const auto unknown = std::ranges::find(ids, data::kUnknownId);
    SLUICE_CHECK(unknown == ids.end(),
                 "{}: the model can't write its token {}, which the vocabulary ({}, {} ids) lacks",
                 name, unknown - ids.begin() + 1, tokenizer.kind(), tokenizer.size());
    for (const Ids& banned : constraints.banned) {
      SLUICE_CHECK(!holds(ids, banned), "{} holds '{}', which is banned", name,
                   tokenizer.decode(banned));
    }
    SLUICE_CHECK(!repeats(ids, constraints.no_repeat),
                 "{} repeats {} in a row, which no_repeat rules out", name,
                 base::counted(constraints.no_repeat, "token"));
    forced.push_back(std::move(ids));
  }
  return decoding::without_contained(std::move(forced));
}

void require_room(const decoding::TokenSequences& forced, const std::vector<std::int32_t>& prefix,
                  std::int64_t most, std::string_view whose) {
  const std::int64_t needed = decoding::tokens_to_hold(forced, prefix);
  SLUICE_CHECK(
      needed <= most,
      "the words forced on answers{} take {} one after the other, but answers have at most "
      "{}; force less, or allow longer answers",
      whose, base::counted(needed, "token"), most);
}

void warn_of_no_answer(const WarningHandler* warnings, std::span<const std::size_t> inputs,
                       std::size_t all, std::string_view kind) {
  if (inputs.empty()) return;
  base::warn(warnings,
             "{} of {} {} no answer (the first is {} {}): nothing that is allowed has ended; "
             "ban or force less, or take a wider beam",
             inputs.size(), base::counted(all, kind), inputs.size() == 1 ? "has" : "have", kind,
             inputs.front() + 1);
}

}  // namespace sluice::api
