// The opcodes of protocol 0, whose operands are lines of text.
#include <charconv>
#include <cmath>

#include "io/formats/pickle/pickle_parser.h"

namespace sluice::io::formats {
namespace {

/// The value of a hexadecimal number of just `digits` digits at `at`; empty if there is none.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t at,
                                         std::size_t digits) {
  if (at > text.size() || text.size() - at < digits) return std::nullopt;
  std::uint32_t value = 0;
  const char* begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
  if (error != std::errc() || end != begin + digits) return std::nullopt;
  return value;
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto put = [&](std::uint32_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | (code >> 18 & 7));
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

/// The content of a string literal without its quotes; empty if an escape is malformed.
std::optional<std::string> unescape_literal(std::string_view literal) {
  static constexpr std::string_view kNames = "abfnrtv\\'\"", kBytes = "\a\b\f\n\r\t\v\\'\"";
  std::string text;
  for (std::size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\') {
      text += literal[at];
      continue;
    }
    if (++at == literal.size()) return std::nullopt;
    if (const std::size_t which = kNames.find(literal[at]); which != std::string_view::npos) {
      text += kBytes[which];
    } else if (const auto code = hexadecimal(literal, at + 1, 2); literal[at] == 'x' && code) {
      text += static_cast<char>(*code);
      at += 2;
    } else {
      return std::nullopt;
    }
  }
  return text;
}

/// Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8; empty if a code is too large.
std::optional<std::string> unescape_unicode(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char kind = line[at] == '\\' && at + 1 < line.size() ? line[at + 1] : '\0';
    const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const auto code = digits == 0 ? std::nullopt : hexadecimal(line, at + 2, digits);
    if (digits != 0 && (!code || *code > 0x10ffff)) return std::nullopt;
    append_utf8(code ? *code : static_cast<unsigned char>(line[at]), text);
    if (code) at += 1 + digits;
  }
  return text;
}

}  // namespace

bool PickleParser::run_lines(std::uint8_t opcode) {
  switch (opcode) {
    case 'I':
    case 'L':
      push_decimal(take_line());
      return true;
    case 'F':
      push_float_line(take_line());
      return true;
    case 'S':
      push_quoted(take_line());
      return true;
    case 'V':
      push_escaped(take_line());
      return true;
    case 'P':
      push_text(PickleKind::kString, take_line());
      push_persistent_id(pop());
      return true;
    case 'c': {
      const std::string_view module = take_line();
      push_global(module, take_line());
      return true;
    }
    case 'i': {
      const std::string_view module = take_line();
      const std::string_view name = take_line();
      push_items(PickleKind::kTuple, pop_to_mark());
      const PickleValue* arguments = pop();
      push_global(module, name);
      push_object(pop(), arguments);
      return true;
    }
    case 'p':
      remember(index_line());
      return true;
    case 'g':
      recall(index_line());
      return true;
    default:
      return false;
  }
}

/// "01" and "00" are the bools of protocol 0; longs may end in L.
void PickleParser::push_decimal(std::string_view line) {
  if (line == "01" || line == "00") return push_bool(line == "01");
  if (line.ends_with('L')) line.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error == std::errc::result_out_of_range) refuse_feature("a decimal int beyond 64 bits");
  if (error != std::errc() || end != line.data() + line.size()) refuse("an int is malformed");
  push_integer(value);
}

void PickleParser::push_float_line(std::string_view line) {
  double value = 0;
  const char* last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data(), last, value);
  if (error == std::errc::invalid_argument || end != last) refuse("a float is malformed");
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(line).c_str(), nullptr);
  make(PickleKind::kFloat).scalar_ = value;
}

void PickleParser::push_quoted(std::string_view line) {
  if (line.size() < 2 || line.front() != line.back() || (line[0] != '\'' && line[0] != '"')) {
    refuse("a string lacks its quotes");
  }
  std::optional<std::string> text = unescape_literal(line.substr(1, line.size() - 2));
  if (!text) refuse("a string has a malformed escape");
  push_text(PickleKind::kByteString, pickle_.decoded_->emplace_back(std::move(*text)));
}

void PickleParser::push_escaped(std::string_view line) {
  std::optional<std::string> text = unescape_unicode(line);
  if (!text) refuse("a string has a malformed escape");
  push_text(PickleKind::kString, pickle_.decoded_->emplace_back(std::move(*text)));
}

std::uint64_t PickleParser::index_line() {
  const std::string_view line = take_line();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size())
    refuse("a memo's index is malformed");
  return value;
}

}  // namespace sluice::io::formats
