#include "interchange/vocabulary_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/check.h"
#include "data/char_tokenizer.h"
#include "data/word_tokenizer.h"

namespace sluice::interchange {
namespace {

bool is_one_character(const std::string& text) {
  // The bytes of a UTF-8 character after the first begin with the bits 10.
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
  return std::ranges::count_if(text, begins) == 1;
}

bool is_word(const std::string& text) {
  return !text.empty() && text.find_first_of(" \t\n\v\f\r") == std::string::npos;
}

/// The texts that become pieces: unique, and each a word if `characters` is false.
std::vector<std::string> usable_texts(std::vector<std::string> texts, bool characters,
                                      Account& account) {
  const std::set<std::string> given(texts.begin(), texts.end());
  std::set<std::string> seen;
  std::size_t replaced = 0;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const bool usable = characters || is_word(texts[id]);
    if (usable && seen.insert(texts[id]).second) continue;
    std::string name = fmt::format("<id{}>", id);
    while (given.contains(name)) name += "'";
    texts[id] = name;
    ++replaced;
  }
  if (replaced > 0) {
    account.assume(
        fmt::format("{} texts that are no word, or stand there twice, become <idN>", replaced));
  }
  return texts;
}

}  // namespace

SourceVocabulary vocabulary_of(SourceModel& source, std::int64_t count,
                               const AssembleOptions& options, std::string_view texts_option) {
  std::vector<std::string> texts = options.words;
  SLUICE_CHECK(texts.empty() || static_cast<std::int64_t>(texts.size()) == count,
               "{} has {} words for {} ids of '{}'; give a line for each id, in their order",
               texts_option, texts.size(), count, source.path);
  if (texts.empty()) {
    for (std::int64_t id = 0; id < count; ++id) texts.push_back(std::to_string(id));
    source.account.assume(fmt::format(
        "the file has no words, so texts are ids as decimal numbers (say otherwise by {})",
        texts_option));
  }

  SourceVocabulary result;
  result.ids.assign(static_cast<std::size_t>(count), -1);
  const std::array<std::pair<std::optional<std::int64_t>, std::int32_t>, 4> special{
      {{options.pad, data::kPadId},
       {options.unknown, data::kUnknownId},
       {options.begin, data::kBosId},
       {options.end, data::kEosId}}};
  for (const auto& [id, meaning] : special) {
    if (!id) continue;
    SLUICE_CHECK(*id >= 0 && *id < count,
                 "{} is given as an id with a special meaning, but the ids are 0 to {}", *id,
                 count - 1);
    std::int32_t& place = result.ids[static_cast<std::size_t>(*id)];
    SLUICE_CHECK(place < 0, "the id {} has two special meanings", *id);
    place = meaning;
  }

  std::vector<std::string> pieces;
  for (std::int64_t id = 0; id < count; ++id) {
    std::int32_t& place = result.ids[static_cast<std::size_t>(id)];
    if (place >= 0) continue;
    place = data::kFirstPieceId + static_cast<std::int32_t>(pieces.size());
    pieces.push_back(texts[static_cast<std::size_t>(id)]);
  }
  SLUICE_CHECK(!pieces.empty(), "all ids of '{}' are special; there must be one more", source.path);
  const std::set<std::string> distinct(pieces.begin(), pieces.end());
  // Numbers are words also where there are no more than ten, and a tagger is given its tokens.
  const bool characters = !options.words.empty() && options.kind != "tagger" &&
                          std::ranges::all_of(pieces, is_one_character) &&
                          distinct.size() == pieces.size();
  if (!options.words.empty()) {
    source.account.find(fmt::format("the texts of ids{} are {}",
                                    texts_option == "--target-words" ? " that it writes" : "",
                                    characters ? "characters: each character of a text is an id"
                                    : options.kind == "tagger" ? "words: each token is an id"
                                                               : "words parted by blanks"));
  }
  pieces = usable_texts(std::move(pieces), characters, source.account);
  std::string payload;
  for (const std::string& piece : pieces) payload += characters ? piece : piece + "\n";
  result.tokenizer =
      characters ? data::parse_char_tokenizer(payload) : data::parse_word_tokenizer(payload);
  return result;
}

}  // namespace sluice::interchange
