#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::io {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), reflected, as TFRecord files use it.
std::uint32_t crc32c(std::string_view bytes);
/// The same as it stands in TFRecord files: rotated, plus a constant.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace sluice::io
