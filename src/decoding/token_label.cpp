#include "decoding/token_label.h"

#include <algorithm>
#include <array>

#include "data/utf8.h"

namespace sluice::decoding {
namespace {

constexpr char32_t kReplacement = 0xFFFD, kSpace = 0x2423, kEllipsis = 0x2026;

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool holds(const std::array<Range, N>& ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](const Range& r) { return r.first <= c && c <= r.last; });
}

// After Unicode's EastAsianWidth.txt (W and F) by blocks, which is as exact as terminals are.
constexpr std::array kWide{
    Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
    Range{0xA960, 0xA97F},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
    Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
    Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF},
    Range{0x20000, 0x3FFFD}};
constexpr std::array kCombining{Range{0x300, 0x36F},   Range{0x483, 0x489},  Range{0x591, 0x5BD},
                                Range{0x610, 0x61A},   Range{0x64B, 0x65F},  Range{0x200B, 0x200F},
                                Range{0x20D0, 0x20F0}, Range{0xFE00, 0xFE0F}};

char32_t visible(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xFFFE || c == 0xFFFF;
  if (control) return kReplacement;
  return c == ' ' || c == 0xA0 || c == 0x3000 ? kSpace : c;
}

}  // namespace

std::string token_label(std::string_view token, std::int64_t most) {
  std::string label;
  std::int64_t count = 0;
  std::size_t last = 0;  // where the last character allowed began
  for (std::size_t at = 0; at < token.size(); ++count) {
    if (count == most) {
      label.resize(last);
      data::append_utf8(kEllipsis, label);
      return label;
    }
    const data::CodePoint c = data::code_point_at(token, at);
    last = label.size();
    data::append_utf8(c.length == 0 ? kReplacement : visible(c.value), label);
    at += std::max<std::size_t>(c.length, 1);
  }
  return label;
}

std::int64_t display_width(std::string_view text) {
  std::int64_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const data::CodePoint c = data::code_point_at(text, at);
    if (!holds(kCombining, c.value)) width += holds(kWide, c.value) ? 2 : 1;
    at += std::max<std::size_t>(c.length, 1);
  }
  return width;
}

}  // namespace sluice::decoding
