#include "io/checksummed_blob.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace sluice::io {
namespace {

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

std::uint64_t take_number(std::string_view& line, const BlobFormat& format, std::string_view name,
                          int base = 10) {
  const std::string_view word = take_word(line);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc{} || end != word.data() + word.size()) {
    base::fail(ErrorCode::kFormat, "the stored {} is damaged: its {} is not a number", format.what,
               name);
  }
  return value;
}

/// The first line without its end; `bytes` keeps the rest.
std::string_view take_header(std::string_view& bytes, const BlobFormat& format) {
  const std::size_t end = bytes.substr(0, kMaxHeaderBytes).find('\n');
  if (!bytes.starts_with(format.magic) || end == std::string_view::npos) {
    base::fail(ErrorCode::kFormat,
               "these {} bytes are not a {}: they do not begin with a line '{} …'", bytes.size(),
               format.what, format.magic);
  }
  const std::string_view header = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return header;
}

}  // namespace

std::string BlobFormat::write(std::string_view kind, std::string_view payload) const {
  std::string bytes =
      fmt::format("{} {} {} {} {:08x}\n", magic, revision, kind, payload.size(), checksum(payload));
  bytes += payload;
  return bytes;
}

ChecksummedBlob BlobFormat::read(std::string_view bytes) const {
  std::string_view header = take_header(bytes, *this);
  take_word(header);
  const std::uint64_t found = take_number(header, *this, "revision");
  if (found != revision) {
    base::fail(ErrorCode::kFormat, "the stored {} has revision {}, this program reads revision {}",
               what, found, revision);
  }
  const std::string_view kind = take_word(header);
  const std::uint64_t size = take_number(header, *this, "size");
  const std::uint64_t crc = take_number(header, *this, "checksum", 16);
  if (size != bytes.size()) {
    base::fail(ErrorCode::kFormat,
               "the stored {} is truncated or overlong: it states {} bytes and has {}", what, size,
               bytes.size());
  }
  if (crc != checksum(bytes)) {
    base::fail(ErrorCode::kFormat, "the stored {} is damaged: its checksum differs", what);
  }
  return {kind, bytes};
}

}  // namespace sluice::io
