#include "metrics/bleu_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "data/utf8.h"
#include "metrics/words.h"

namespace sluice::metrics {
namespace {

constexpr std::array<std::string_view, 4> kNames{"13a", "zh", "char", "none"};

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_point(char byte) { return byte == '.' || byte == ','; }

// ASCII punctuation that always stands alone: all but ' , - .
bool is_symbol(char byte) {
  constexpr std::string_view kSymbols = "!\"#$%&()*+/:;<=>?@[\\]^_`{|}~";
  return kSymbols.find(byte) != std::string_view::npos;
}

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// Where to put spaces about two neighbouring bytes; those between them always come.
enum class Apart { kBefore, kAfter };

/// Sets pairs of neighbours apart from left to right; a byte belongs to one pair at most.
template <typename IsPair>
std::string set_apart(std::string_view text, IsPair is_pair, Apart apart) {
  std::string spaced;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !is_pair(text[i], text[i + 1])) {
      spaced += text[i];
      continue;
    }
    if (apart == Apart::kBefore) spaced += ' ';
    spaced += text[i];
    spaced += ' ';
    spaced += text[++i];
    if (apart == Apart::kAfter) spaced += ' ';
  }
  return spaced;
}

/// mteval-v13a's rules for punctuation. All they look at is ASCII, so bytes do.
std::string set_punctuation_apart(std::string_view text) {
  std::string spaced;
  for (const char byte : text) {
    if (is_symbol(byte)) {
      spaced += {' ', byte, ' '};
    } else {
      spaced += byte;
    }
  }
  spaced = set_apart(
      spaced, [](char a, char b) { return !is_digit(a) && is_point(b); }, Apart::kAfter);
  spaced = set_apart(
      spaced, [](char a, char b) { return is_point(a) && !is_digit(b); }, Apart::kBefore);
  return set_apart(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; }, Apart::kAfter);
}

std::string tokenize_13a(std::string_view line) {
  std::string text = replace_all(std::string(line), "<skipped>", "");
  // The ampersand before < and >, so that "&amp;lt;" is unpacked twice, as mteval does.
  text = replace_all(std::move(text), "&quot;", "\"");
  text = replace_all(std::move(text), "&amp;", "&");
  text = replace_all(std::move(text), "&lt;", "<");
  text = replace_all(std::move(text), "&gt;", ">");
  return set_punctuation_apart(' ' + text + ' ');
}

/// What sacrebleu's "zh" takes for Chinese: beside ideographs, their radicals, punctuation and
/// compatibility forms also all that lies from U+2000 to U+2A6D.
bool stands_alone_in_chinese(char32_t character) {
  struct Range {
    char32_t first, last;
  };
  constexpr std::array<Range, 13> kRanges{{{0x2000, 0x2a6d},
                                           {0x2e80, 0x2fdf},
                                           {0x2ff0, 0x303f},
                                           {0x3100, 0x312f},
                                           {0x31a0, 0x31ef},
                                           {0x3200, 0x4db5},
                                           {0x4e00, 0x9fbb},
                                           {0xf900, 0xfa2d},
                                           {0xfa30, 0xfa6a},
                                           {0xfa70, 0xfad9},
                                           {0xfe10, 0xfe1f},
                                           {0xfe30, 0xfe4f},
                                           {0xff00, 0xffef}}};
  return std::ranges::any_of(kRanges, [&](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

std::string tokenize_zh(std::string_view line) {
  std::vector<char32_t> characters = data::decode_utf8(line, "a line");
  // White space at the ends would set a point there apart.
  const auto is_text = [](char32_t character) { return !is_space(character); };
  const auto first = std::ranges::find_if(characters, is_text);
  const auto last = std::find_if(characters.rbegin(), characters.rend(), is_text).base();
  std::string spaced;
  for (auto at = first; at < last; ++at) {
    const bool alone = stands_alone_in_chinese(*at);
    if (alone) spaced += ' ';
    data::append_utf8(*at, spaced);
    if (alone) spaced += ' ';
  }
  return set_punctuation_apart(spaced);
}

std::vector<std::string> split_characters(std::string_view line) {
  std::vector<std::string> tokens;
  for (const char32_t character : characters_of(line)) {
    data::append_utf8(character, tokens.emplace_back());
  }
  return tokens;
}

}  // namespace

std::span<const std::string_view> bleu_tokenizer_names() { return kNames; }

std::string_view name_of(BleuTokenizer tokenizer) {
  return kNames[static_cast<std::size_t>(tokenizer)];
}

BleuTokenizer parse_bleu_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  SLUICE_CHECK(found != kNames.end(), "the tokenizer of BLEU is '{}'; use one of: {}", name,
               fmt::join(kNames, ", "));
  return static_cast<BleuTokenizer>(found - kNames.begin());
}

std::vector<std::string> bleu_tokens(std::string_view line, BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::k13a:
      return split_words(tokenize_13a(line));
    case BleuTokenizer::kZh:
      return split_words(tokenize_zh(line));
    case BleuTokenizer::kChar:
      return split_characters(line);
    case BleuTokenizer::kNone:
      break;
  }
  return split_words(line);
}

}  // namespace sluice::metrics
