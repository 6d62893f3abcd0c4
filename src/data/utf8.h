#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

/// The code point that starts at `text[offset]` and how many bytes it takes; `length` is 0 where
/// the bytes are not valid UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF) or
/// where `offset` is at the end.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;
};
CodePoint code_point_at(std::string_view text, std::size_t offset);

/// Offset of the first byte that does not start or continue a valid sequence's code point, or
/// `text.size()` if all of `text` is valid.
std::size_t find_invalid_utf8(std::string_view text);

/// Throws ErrorCode::kFormat unless `text` is valid UTF-8. The sentence starts with `what` (for
/// example "the text to encode") and names the byte and its offset.
void require_utf8(std::string_view text, std::string_view what);

/// The code points of `text`; throws as require_utf8.
std::vector<char32_t> decode_utf8(std::string_view text, std::string_view what);

/// Appends the UTF-8 form of `value`, which must be a Unicode scalar value.
void append_utf8(char32_t value, std::string& out);

}  // namespace sluice::data
