#include "data/char_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "data/utf8.h"

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

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the text to encode");
    std::vector<std::int32_t> ids;
    for_each_character(text, [&](std::string_view one) { ids.push_back(vocabulary_.id(one)); });
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require_id(id);
      if (id < kFirstPieceId && id != kUnknownId) continue;
      text += id == kUnknownId ? kUnknownText : vocabulary_.piece(id);
    }
    return text;
  }

  std::int32_t size() const override { return vocabulary_.size(); }

  std::string piece(std::int32_t id) const override {
    require_id(id);
    return vocabulary_.piece(id);
  }

  std::string_view kind() const override { return "characters"; }

 protected:
  std::string payload() const override {
    std::string all;
    for (const std::string& character : vocabulary_.pieces()) all += character;
    return all;
  }

 private:
  Vocabulary vocabulary_;
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
