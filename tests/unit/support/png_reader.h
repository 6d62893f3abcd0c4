#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice::testing {

/// The pixels of a PNG file of 8-bit red, green and blue without filters.
struct PngPixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string rgb;
};

/// The checksum of PNG's chunks (ISO/IEC 15948, annex D), bit by bit.
inline std::uint32_t png_checksum(std::string_view bytes) {
  std::uint32_t sum = 0xffffffffu;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~sum;
}

inline std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(i));
  return value;
}

/// Throws std::runtime_error for what is no such file: each chunk's checksum is looked at.
inline PngPixels read_png(std::string_view file) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
  };
  require(file.substr(0, 8) == std::string_view("\x89PNG\r\n\x1a\n"), "signature");
  PngPixels image;
  std::string packed, order;
  for (std::size_t at = 8; at < file.size();) {
    const std::uint32_t length = big_endian(file.substr(at, 4));
    const std::string_view type = file.substr(at + 4, 4), content = file.substr(at + 8, length);
    require(content.size() == length, "a chunk is cut");
    require(big_endian(file.substr(at + 8 + length, 4)) ==
                png_checksum(file.substr(at + 4, 4 + length)),
            "checksum");
    order += std::string(type) + ' ';
    if (type == "IHDR") {
      image.width = big_endian(content);
      image.height = big_endian(content.substr(4));
      require(content.substr(8) == std::string_view("\x08\x02\0\0\0", 5), "header");
    }
    if (type == "IDAT") packed += content;
    at += 12 + length;
  }
  require(order == "IHDR IDAT IEND ", "order of chunks");
  const std::size_t row = 3 * std::size_t{image.width};
  std::string rows((row + 1) * image.height, '\x55');
  uLongf size = rows.size();
  require(uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK &&
              size == rows.size(),
          "compressed rows");
  for (std::size_t at = 0; at < rows.size(); at += row + 1) {
    require(rows[at] == 0, "a filter");
    image.rgb += rows.substr(at + 1, row);
  }
  return image;
}

}  // namespace sluice::testing
