#include "data/word_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/utf8.h"

namespace sluice::data {
namespace {

constexpr std::string_view kSpaces = " \t\n\v\f\r";

/// Calls `take(word)` for each word of `text`.
template <typename Take>
void for_each_word(std::string_view text, Take&& take) {
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    take(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpaces, end);
  }
}

class WordTokenizer final : public Tokenizer {
 public:
  explicit WordTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the text to encode");
    std::vector<std::int32_t> ids;
    for_each_word(text, [&](std::string_view word) { ids.push_back(vocabulary_.id(word)); });
    return ids;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require_id(id);
      if (id < kFirstPieceId && id != kUnknownId) continue;
      if (!text.empty()) text += ' ';
      text += id == kUnknownId ? kUnknownText : vocabulary_.piece(id);
    }
    return text;
  }

  std::int32_t size() const override { return vocabulary_.size(); }

  std::string piece(std::int32_t id) const override {
    require_id(id);
    return vocabulary_.piece(id);
  }

  std::string_view kind() const override { return "words"; }

 protected:
  std::string payload() const override {
    std::string lines;
    for (const std::string& word : vocabulary_.pieces()) lines += word + '\n';
    return lines;
  }

 private:
  Vocabulary vocabulary_;
};

}  // namespace

std::unique_ptr<Tokenizer> train_word_tokenizer(std::span<const std::string> lines,
                                                const VocabularyOptions& options) {
  PieceCounts counts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    require_utf8(lines[i], fmt::format("line {} of the vocabulary's text", i + 1));
    for_each_word(lines[i], [&](std::string_view word) { counts.add(word); });
  }
  return std::make_unique<WordTokenizer>(Vocabulary(counts, options));
}

std::unique_ptr<Tokenizer> parse_word_tokenizer(std::string_view payload) {
  require_utf8(payload, "the stored vocabulary of words");
  std::vector<std::string> words;
  while (!payload.empty()) {
    const std::size_t end = payload.find('\n');
    const std::string_view word = payload.substr(0, end);
    if (end == std::string_view::npos || word.find_first_of(kSpaces) != std::string_view::npos) {
      base::fail(ErrorCode::kFormat,
                 "the stored vocabulary of words is damaged: entry {} is not one word a line",
                 words.size());
    }
    words.emplace_back(word);
    payload.remove_prefix(end + 1);
  }
  return std::make_unique<WordTokenizer>(Vocabulary(std::move(words)));
}

}  // namespace sluice::data
