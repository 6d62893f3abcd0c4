#include "data/word_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/utf8.h"
#include "data/vocabulary_tokenizer.h"

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

char class_of(char c) {
  if (c >= 'A' && c <= 'Z') return 'X';
  if (c >= 'a' && c <= 'z') return 'x';
  if (c >= '0' && c <= '9') return 'd';
  return static_cast<unsigned char>(c) < 0x80 ? c : 'u';
}

/// How the vocabulary writes a shape, marked as no word that was seen.
std::string shape_piece(std::string_view word) {
  return std::string(kUnknownText) + word_shape(word);
}

class WordTokenizer final : public VocabularyTokenizer {
 public:
  WordTokenizer(Vocabulary vocabulary, bool has_shapes)
      : VocabularyTokenizer(std::move(vocabulary), " ", "\n"), has_shapes_(has_shapes) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the text to encode");
    std::vector<std::int32_t> ids;
    for_each_word(text, [&](std::string_view word) {
      const std::int32_t id = vocabulary().id(word);
      const bool is_new = has_shapes_ && id == kUnknownId;
      ids.push_back(is_new ? vocabulary().id(shape_piece(word)) : id);
    });
    return ids;
  }

  std::string_view kind() const override { return has_shapes_ ? "word_shapes" : "words"; }

 private:
  bool has_shapes_;
};

/// Calls `take(word)` for each word of the lines.
template <typename Take>
void for_each_word(std::span<const std::string> lines, Take&& take) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    require_utf8(lines[i], fmt::format("line {} of the vocabulary's text", i + 1));
    for_each_word(lines[i], take);
  }
}

Vocabulary vocabulary_of(std::span<const std::string> lines, const VocabularyOptions& options) {
  PieceCounts counts;
  for_each_word(lines, [&](std::string_view word) { counts.add(word); });
  return Vocabulary(counts, options);
}

/// Pieces of the shapes of words that `words` lacks.
std::vector<std::string> shapes_beside(const Vocabulary& words, std::span<const std::string> lines,
                                       const VocabularyOptions& options) {
  PieceCounts counts;
  for_each_word(lines, [&](std::string_view word) {
    if (words.id(word) == kUnknownId) counts.add(shape_piece(word));
  });
  if (counts.largest() < options.min_count) return {};
  return Vocabulary(counts, options).pieces();
}

Vocabulary parse_words(std::string_view payload) {
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
  return Vocabulary(std::move(words));
}

}  // namespace

std::string word_shape(std::string_view word) {
  constexpr std::size_t kMostRuns = 6;
  std::string shape;
  std::size_t runs = 0;
  for (std::size_t begin = 0, end = 0; begin < word.size() && runs < kMostRuns; begin = end) {
    const char kind = class_of(word[begin]);
    while (end < word.size() && class_of(word[end]) == kind) ++end;
    shape.append(kind == 'X' && end - begin > 1 ? 2 : 1, kind);
    ++runs;
  }
  return shape;
}

std::unique_ptr<Tokenizer> train_word_tokenizer(std::span<const std::string> lines,
                                                const VocabularyOptions& options) {
  return std::make_unique<WordTokenizer>(vocabulary_of(lines, options), false);
}

std::unique_ptr<Tokenizer> train_word_shape_tokenizer(std::span<const std::string> lines,
                                                      const VocabularyOptions& options) {
  const Vocabulary words = vocabulary_of(lines, options);
  std::vector<std::string> shapes = shapes_beside(words, lines, options);
  std::vector<std::string> pieces = words.pieces();
  // Words are rarer the later they stand.
  const auto room = static_cast<std::size_t>(options.max_size - kFirstPieceId);
  if (pieces.size() + shapes.size() > room) {
    pieces.resize(room - std::min(room, shapes.size()));
    shapes.resize(std::min(room, shapes.size()));
  }
  // A word of the text may be spelt as a shape is.
  for (std::string& shape : shapes) {
    if (words.id(shape) == kUnknownId) pieces.push_back(std::move(shape));
  }
  return std::make_unique<WordTokenizer>(Vocabulary(std::move(pieces)), true);
}

std::unique_ptr<Tokenizer> parse_word_tokenizer(std::string_view payload) {
  return std::make_unique<WordTokenizer>(parse_words(payload), false);
}

std::unique_ptr<Tokenizer> parse_word_shape_tokenizer(std::string_view payload) {
  return std::make_unique<WordTokenizer>(parse_words(payload), true);
}

}  // namespace sluice::data
