#include "data/sentencepiece_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice::data {
namespace {

/// One field of a protocol buffer message; `bytes` only of length-delimited fields.
struct Field {
  std::uint64_t number = 0;
  std::string_view bytes;
};

[[noreturn]] void refuse(std::string_view why) {
  base::fail(ErrorCode::kFormat, "the stored SentencePiece model is damaged: {}", why);
}

std::uint64_t take_varint(std::string_view& message) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7Fu) << shift;
    if (byte < 0x80) return value;
  }
  refuse("it stops inside a number");
}

std::string_view take_bytes(std::string_view& message, std::uint64_t count) {
  if (count > message.size()) refuse("it is truncated");
  const std::string_view bytes = message.substr(0, count);
  message.remove_prefix(count);
  return bytes;
}

Field take_field(std::string_view& message) {
  const std::uint64_t key = take_varint(message);
  if (key > UINT32_MAX || key < 8) refuse("it has a field of an impossible number");
  Field field{key >> 3, {}};
  switch (key & 7) {
    case 0:
      take_varint(message);
      break;
    case 1:
      take_bytes(message, 8);
      break;
    case 2:
      field.bytes = take_bytes(message, take_varint(message));
      break;
    case 5:
      take_bytes(message, 4);
      break;
    default:
      refuse("it has a field of an unknown type");
  }
  return field;
}

/// The trie as its reader sees it: from base b, byte c leads to unit b ^ c if that unit bears the
/// label c, and from there to a new base, whose own unit is a leaf's value if one is announced.
class Trie {
 public:
  Trie(std::vector<std::uint32_t> units, std::size_t text_bytes)
      : units_(std::move(units)), text_bytes_(text_bytes) {}

  bool is_sound() {
    if (units_.empty()) return false;
    const auto most = matches_below(offset(units_[0]), 0);
    return most.has_value() && *most <= kMostMatches;
  }

 private:
  /// The library's room for the prefixes of one text that are keys.
  static constexpr std::size_t kMostMatches = 32;
  /// Longer keys do not occur (a few dozen bytes do); ends what would be an endless walk.
  static constexpr std::size_t kMostDepth = 1024;

  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
  }
  static bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1u) != 0; }
  static std::uint32_t label(std::uint32_t unit) { return unit & ((1u << 31) | 0xFFu); }
  static std::size_t value(std::uint32_t unit) { return unit & ~(1u << 31); }

  /// Most keys on one way down from `base`; nothing if a way leaves the trie or the texts.
  std::optional<std::size_t> matches_below(std::size_t base, std::size_t depth) {
    if (const auto known = matches_.find(base); known != matches_.end()) return known->second;
    if ((base | 0xFFu) >= units_.size() || depth > kMostDepth) return std::nullopt;
    std::size_t most = 0;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::size_t at = base ^ byte;
      const std::uint32_t unit = units_[at];
      if (label(unit) != byte) continue;
      const std::size_t next = at ^ offset(unit);
      const auto below = matches_below(next, depth + 1);
      if (!below.has_value()) return std::nullopt;
      if (has_leaf(unit) && value(units_[next]) >= text_bytes_) return std::nullopt;
      most = std::max(most, *below + (has_leaf(unit) ? 1 : 0));
    }
    matches_.emplace(base, most);
    return most;
  }

  std::vector<std::uint32_t> units_;
  std::size_t text_bytes_;
  std::unordered_map<std::size_t, std::size_t> matches_;
};

}  // namespace

bool is_sound_table(std::string_view table) {
  if (table.empty()) return true;
  std::uint32_t trie_bytes = 0;
  if (table.size() < sizeof(trie_bytes)) return false;
  std::memcpy(&trie_bytes, table.data(), sizeof(trie_bytes));
  table.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes % sizeof(std::uint32_t) != 0 || trie_bytes >= table.size()) return false;
  std::vector<std::uint32_t> units(trie_bytes / sizeof(std::uint32_t));
  if (!units.empty()) std::memcpy(units.data(), table.data(), trie_bytes);
  const std::string_view texts = table.substr(trie_bytes);
  return texts.back() == '\0' && Trie(std::move(units), texts.size()).is_sound();
}

void require_sound_tables(std::string_view model) {
  constexpr std::uint64_t kNormalizer = 3;
  constexpr std::uint64_t kDenormalizer = 5;
  constexpr std::uint64_t kTable = 2;
  while (!model.empty()) {
    Field part = take_field(model);
    if (part.number != kNormalizer && part.number != kDenormalizer) continue;
    while (!part.bytes.empty()) {
      const Field field = take_field(part.bytes);
      if (field.number == kTable && !is_sound_table(field.bytes)) {
        refuse("its normalization table points outside itself");
      }
    }
  }
}

}  // namespace sluice::data
