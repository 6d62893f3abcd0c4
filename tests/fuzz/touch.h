#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::io::formats {

/// Reads every byte, so that a sanitizer sees memory that is not there or was never set.
inline void touch(std::span<const std::byte> bytes) {
  static volatile unsigned sink = 0;
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);
  sink = sink + sum;
}
inline void touch(std::string_view text) { touch(std::as_bytes(std::span(text))); }

}  // namespace sluice::io::formats
