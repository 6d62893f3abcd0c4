#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::bench {

/// A line `name key=value …` of a shape file.
struct ShapeLine {
  std::string place;  ///< "FILE:LINE", for errors
  std::string name;
  std::vector<std::pair<std::string, std::string>> keys;
};

/// The lines of a text that `origin` names in errors; `#` starts a comment. Throws Error for a
/// missing name, a word without `=` and a text without lines.
std::vector<ShapeLine> split_shape_lines(std::string_view text, std::string_view origin);

/// All of a shape file. Throws ErrorCode::kNotFound.
std::string read_shape_text(const std::filesystem::path& path);

/// Hands each key and value to `set`, and calls `check` at the end; what they throw gets the line's
/// place, and the key, in front.
void read_keys(const ShapeLine& line,
               const std::function<void(std::string_view key, std::string_view value)>& set,
               const std::function<void()>& check);

/// An integer of at least `least`. Throws Error.
std::int64_t parse_number(std::string_view text, std::int64_t least);

}  // namespace sluice::bench
