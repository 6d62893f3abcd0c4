#include "data/tokenizer.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "data/char_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/word_tokenizer.h"

namespace sluice::data {
namespace {

constexpr std::string_view kMagic = "sluice-tokenizer";
constexpr std::uint64_t kRevision = 1;
constexpr std::size_t kMaxHeaderBytes = 128;

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Cuts the first word off `line`.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

std::uint64_t take_number(std::string_view& line, std::string_view what, int base = 10) {
  const std::string_view word = take_word(line);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc{} || end != word.data() + word.size()) {
    base::fail(ErrorCode::kFormat, "the stored tokenizer is damaged: its {} is not a number", what);
  }
  return value;
}

/// The first line without its end; `bytes` keeps the rest.
std::string_view take_header(std::string_view& bytes) {
  const std::size_t end = bytes.substr(0, kMaxHeaderBytes).find('\n');
  if (!bytes.starts_with(kMagic) || end == std::string_view::npos) {
    base::fail(ErrorCode::kFormat,
               "these {} bytes are not a tokenizer: they do not begin with a line '{} …'",
               bytes.size(), kMagic);
  }
  const std::string_view header = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return header;
}

}  // namespace

std::string Tokenizer::serialize() const {
  const std::string body = payload();
  return fmt::format("{} {} {} {} {:08x}\n", kMagic, kRevision, kind(), body.size(),
                     checksum(body)) +
         body;
}

void Tokenizer::require_id(std::int32_t id) const {
  SLUICE_CHECK(id >= 0 && id < size(), "token id {} is outside the vocabulary of {} ids", id,
               size());
}

std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes) {
  std::string_view header = take_header(bytes);
  take_word(header);
  const std::uint64_t revision = take_number(header, "revision");
  if (revision != kRevision) {
    base::fail(ErrorCode::kFormat,
               "the stored tokenizer has revision {}, this program reads revision {}", revision,
               kRevision);
  }
  const std::string_view kind = take_word(header);
  const std::uint64_t size = take_number(header, "size");
  const std::uint64_t crc = take_number(header, "checksum", 16);
  if (size != bytes.size()) {
    base::fail(ErrorCode::kFormat,
               "the stored tokenizer is truncated or overlong: it announces {} bytes and has {}",
               size, bytes.size());
  }
  if (crc != checksum(bytes)) {
    base::fail(ErrorCode::kFormat, "the stored tokenizer is damaged: its checksum differs");
  }
  if (kind == "words") return parse_word_tokenizer(bytes);
  if (kind == "characters") return parse_char_tokenizer(bytes);
  if (kind == "sentencepiece") return parse_sentencepiece(bytes);
  base::fail(ErrorCode::kFormat,
             "the stored tokenizer is of the unknown kind '{}'; this program knows words, "
             "characters and sentencepiece",
             kind);
}

}  // namespace sluice::data
