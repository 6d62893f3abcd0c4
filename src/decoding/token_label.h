#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::decoding {

/// A token as people can see it: spaces become U+2423, control characters and bytes that aren't
/// UTF-8 U+FFFD, and more than `most` characters are cut to end in an ellipsis.
std::string token_label(std::string_view token, std::int64_t most);

/// Columns that valid UTF-8 takes in a terminal: 2 for Chinese, Japanese and Korean characters and
/// most emoji, 0 for combining marks, else 1.
std::int64_t display_width(std::string_view text);

}  // namespace sluice::decoding
