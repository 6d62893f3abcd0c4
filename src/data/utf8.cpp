#include "data/utf8.h"

#include "base/check.h"

namespace sluice::data {
namespace {

unsigned byte_at(std::string_view text, std::size_t offset) {
  return static_cast<unsigned char>(text[offset]);
}

/// Bytes of the sequence that `lead` opens, 0 if it opens none.
std::size_t sequence_length(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Overlong forms and surrogates, which the lead byte alone does not exclude.
bool is_canonical(char32_t value, std::size_t length) {
  if (length == 3) return value >= 0x800 && (value < 0xD800 || value > 0xDFFF);
  if (length == 4) return value >= 0x10000 && value <= 0x10FFFF;
  return true;
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return {};
  const unsigned lead = byte_at(text, offset);
  const std::size_t length = sequence_length(lead);
  if (length <= 1) return {lead, length};
  if (text.size() - offset < length) return {};
  char32_t value = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned byte = byte_at(text, offset + i);
    if ((byte & 0xC0u) != 0x80u) return {};
    value = (value << 6) | (byte & 0x3Fu);
  }
  if (!is_canonical(value, length)) return {};
  return {value, length};
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = code_point_at(text, offset).length;
    if (length == 0) return offset;
    offset += length;
  }
  return offset;
}

void require_utf8(std::string_view text, std::string_view what) {
  const std::size_t offset = find_invalid_utf8(text);
  if (offset == text.size()) return;
  base::fail(ErrorCode::kFormat,
             "{} is not valid UTF-8 at byte offset {} (byte 0x{:02x}); convert it to UTF-8", what,
             offset, byte_at(text, offset));
}

std::vector<char32_t> decode_utf8(std::string_view text, std::string_view what) {
  require_utf8(text, what);
  std::vector<char32_t> values;
  values.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    values.push_back(point.value);
    offset += point.length;
  }
  return values;
}

void append_utf8(char32_t value, std::string& out) {
  SLUICE_CHECK(value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF),
               "U+{:04X} is not a Unicode scalar value", static_cast<std::uint32_t>(value));
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80u | ((value >> shift) & 0x3Fu)));
  };
  if (value < 0x80) {
    out.push_back(static_cast<char>(value));
  } else if (value < 0x800) {
    out.push_back(static_cast<char>(0xC0u | (value >> 6)));
    tail(0);
  } else if (value < 0x10000) {
    out.push_back(static_cast<char>(0xE0u | (value >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0u | (value >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace sluice::data
