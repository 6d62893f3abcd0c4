#include "metrics/words.h"

#include "data/utf8.h"

namespace sluice::metrics {

bool is_space(char32_t character) {
  if (character < 0x80) {
    return (character >= 0x09 && character <= 0x0d) || (character >= 0x1c && character <= 0x20);
  }
  switch (character) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
      return true;
    default:
      return character >= 0x2000 && character <= 0x200a;
  }
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char32_t character : data::decode_utf8(text, "a line")) {
    if (is_space(character)) {
      end_word();
    } else {
      data::append_utf8(character, word);
    }
  }
  end_word();
  return words;
}

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters = data::decode_utf8(text, "a line");
  std::erase_if(characters, is_space);
  return characters;
}

}  // namespace sluice::metrics
