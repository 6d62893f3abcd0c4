#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::metrics {

/// White space as Unicode and Python's str.split have it.
bool is_space(char32_t character);

/// The words between white space. Throws ErrorCode::kFormat if `text` is not valid UTF-8.
std::vector<std::string> split_words(std::string_view text);

/// `text` without white space, by code points. Throws likewise.
std::vector<char32_t> characters_of(std::string_view text);

}  // namespace sluice::metrics
