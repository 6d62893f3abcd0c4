#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::training {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), reflected, as TFRecord files use it.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace sluice::training
