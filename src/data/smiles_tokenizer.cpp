#include "data/smiles_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/vocabulary_tokenizer.h"

namespace sluice::data {
namespace {

using base::fail;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Length of a ring-bond number that begins with %: %12 or %(123); 0 if it is none.
std::size_t percent_length(std::string_view text) {
  if (text.size() >= 3 && is_digit(text[1]) && is_digit(text[2])) return 3;
  if (text.size() < 2 || text[1] != '(') return 0;
  std::size_t end = 2;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end > 2 && end < text.size() && text[end] == ')' ? end + 1 : 0;
}

bool is_visible(char c) { return c > ' ' && c <= '~'; }

// Length of an atom in brackets; 0 if they are empty, not closed, or opened twice.
std::size_t bracket_length(std::string_view text) {
  std::size_t end = 1;
  while (end < text.size() && is_visible(text[end]) && text[end] != '[' && text[end] != ']') ++end;
  return end > 1 && end < text.size() && text[end] == ']' ? end + 1 : 0;
}

// Length of the token that `text`, which is not empty, begins with; 0 if it is none.
std::size_t token_length(std::string_view text) {
  constexpr std::string_view kPairs[] = {"Cl", "Br", "At", "Ts"};
  constexpr std::string_view kSingle = "BCNOPSFIbcnops*0123456789-=#$:/\\.()>";
  if (text[0] == '[') return bracket_length(text);
  if (text[0] == '%') return percent_length(text);
  for (const std::string_view pair : kPairs) {
    if (text.starts_with(pair)) return pair.size();
  }
  return kSingle.find(text[0]) != std::string_view::npos ? 1 : 0;
}

// What the place holds, for people.
std::string show(std::string_view text) {
  if (!is_visible(text[0])) {
    return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[0]));
  }
  return fmt::format("'{}'", text[0]);
}

/// Calls `take(token)` for each token of `text`, which `what` names in errors.
template <typename Take>
void for_each_token(std::string_view text, std::string_view what, Take&& take) {
  for (std::size_t offset = 0; offset < text.size();) {
    const std::string_view rest = text.substr(offset);
    const std::size_t length = token_length(rest);
    if (length == 0) {
      fail(ErrorCode::kFormat,
           "{} is no SMILES: {} at byte offset {} begins no atom, bond, branch or ring number",
           what, show(rest), offset);
    }
    take(rest.substr(0, length));
    offset += length;
  }
}

class SmilesTokenizer final : public VocabularyTokenizer {
 public:
  explicit SmilesTokenizer(Vocabulary vocabulary)
      : VocabularyTokenizer(std::move(vocabulary), "", "\n") {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for_each_token(text, "the text to encode",
                   [&](std::string_view token) { ids.push_back(vocabulary().id(token)); });
    return ids;
  }

  std::string_view kind() const override { return "smiles"; }
};

}  // namespace

void require_smiles(std::string_view text, std::string_view what) {
  for_each_token(text, what, [](std::string_view) {});
}

std::unique_ptr<Tokenizer> train_smiles_tokenizer(std::span<const std::string> lines,
                                                  const VocabularyOptions& options) {
  PieceCounts counts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for_each_token(lines[i], fmt::format("line {} of the vocabulary's text", i + 1),
                   [&](std::string_view token) { counts.add(token); });
  }
  return std::make_unique<SmilesTokenizer>(Vocabulary(counts, options));
}

std::unique_ptr<Tokenizer> parse_smiles_tokenizer(std::string_view payload) {
  std::vector<std::string> tokens;
  while (!payload.empty()) {
    const std::size_t end = payload.find('\n');
    const std::string_view token = payload.substr(0, end);
    if (end == std::string_view::npos || token.empty() || token_length(token) != token.size()) {
      fail(ErrorCode::kFormat,
           "the stored vocabulary of SMILES is damaged: entry {} is not one token a line",
           tokens.size());
    }
    tokens.emplace_back(token);
    payload.remove_prefix(end + 1);
  }
  return std::make_unique<SmilesTokenizer>(Vocabulary(std::move(tokens)));
}

}  // namespace sluice::data
