#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::interchange {

/// The parts of "a,b", none of them empty.
inline std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return parts;
}

}  // namespace sluice::interchange
