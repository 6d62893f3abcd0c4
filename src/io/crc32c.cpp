#include "io/crc32c.h"

#include <array>

namespace sluice::io {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41, bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) ? kPolynomial : 0u);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~0u;
  for (const char character : bytes) {
    value = (value >> 8) ^ kTable[(value ^ static_cast<unsigned char>(character)) & 0xffu];
  }
  return ~value;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t checksum = crc32c(bytes);
  return ((checksum >> 15) | (checksum << 17)) + 0xa282ead8u;
}

}  // namespace sluice::io
