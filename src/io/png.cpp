#include "io/png.h"

#include <zlib.h>

#include "base/check.h"

namespace sluice::io {
namespace {

constexpr std::int64_t kLargestSide = 1 << 14;
constexpr std::int64_t kChannels = 3;

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

const Bytef* as_zlib(std::string_view bytes) {
  return reinterpret_cast<const Bytef*>(bytes.data());
}

/// Length of the content, type, content, checksum of type and content.
void append_chunk(std::string& file, std::string_view type, std::string_view content) {
  append_big_endian(file, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = file.size();
  file += type;
  file += content;
  const std::string_view summed = std::string_view(file).substr(begin);
  const uLong sum = crc32(0, as_zlib(summed), static_cast<uInt>(summed.size()));
  append_big_endian(file, static_cast<std::uint32_t>(sum));
}

std::string compressed(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size, as_zlib(bytes),
                               bytes.size(), Z_BEST_COMPRESSION);
  SLUICE_ASSERT(result == Z_OK);
  out.resize(size);
  return out;
}

}  // namespace

std::string encode_png(std::int64_t width, std::int64_t height, std::string_view rgb) {
  SLUICE_CHECK(width >= 1 && width <= kLargestSide && height >= 1 && height <= kLargestSide,
               "a picture of {} x {} pixels; each side must be in 1..{}", width, height,
               kLargestSide);
  const auto row = static_cast<std::size_t>(width * kChannels);
  SLUICE_CHECK(rgb.size() == row * static_cast<std::size_t>(height),
               "{} bytes of pixels; {} x {} pixels take {}", rgb.size(), width, height,
               row * static_cast<std::size_t>(height));
  std::string header;
  append_big_endian(header, static_cast<std::uint32_t>(width));
  append_big_endian(header, static_cast<std::uint32_t>(height));
  // 8 bits a channel, red green blue; compression, filters and interlacing as they always are.
  header += std::string_view("\x08\x02\x00\x00\x00", 5);
  std::string rows;
  for (std::size_t at = 0; at < rgb.size(); at += row) {
    rows += '\0';  // this row is not filtered
    rows += rgb.substr(at, row);
  }
  std::string file("\x89PNG\r\n\x1a\n");
  append_chunk(file, "IHDR", header);
  append_chunk(file, "IDAT", compressed(rows));
  append_chunk(file, "IEND", "");
  return file;
}

}  // namespace sluice::io
