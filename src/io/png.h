#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::io {

/// The content of a PNG file (ISO/IEC 15948) of width x height pixels, each red, green and blue in
/// 8 bits, row by row from the top left. The same pixels give the same bytes.
std::string encode_png(std::int64_t width, std::int64_t height, std::string_view rgb);

}  // namespace sluice::io
