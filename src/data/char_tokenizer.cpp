#include "data/char_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "data/utf8.h"
#include "data/vocabulary_tokenizer.h"

namespace sluice::data {
namespace {

/// Calls `take(character)` for each code point of valid `text`.
template <typename Take>
void for_each_character(std::string_view text, Take&& take) {
  while (!text.empty()) {
    const std::size_t length = code_point_at(text, 0).length;
    take(text.substr(0, length));
    text.remove_prefix(length);
  }
}

class CharTokenizer final : public VocabularyTokenizer {
 public:
  explicit CharTokenizer(Vocabulary vocabulary)
      : VocabularyTokenizer(std::move(vocabulary), "", "") {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the text to encode");
    std::vector<std::int32_t> ids;
    for_each_character(text, [&](std::string_view one) { ids.push_back(vocabulary().id(one)); });
    return ids;
  }

  std::string_view kind() const override { return "characters"; }
};

}  // namespace

std::unique_ptr<Tokenizer> train_char_tokenizer(std::span<const std::string> lines,
                                                const VocabularyOptions& options) {
  PieceCounts counts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    require_utf8(lines[i], fmt::format("line {} of the vocabulary's text", i + 1));
    for_each_character(lines[i], [&](std::string_view one) { counts.add(one); });
  }
  return std::make_unique<CharTokenizer>(Vocabulary(counts, options));
}

std::unique_ptr<Tokenizer> parse_char_tokenizer(std::string_view payload) {
  require_utf8(payload, "the stored vocabulary of characters");
  std::vector<std::string> pieces;
  for_each_character(payload, [&](std::string_view one) { pieces.emplace_back(one); });
  return std::make_unique<CharTokenizer>(Vocabulary(std::move(pieces)));
}

}  // namespace sluice::data
