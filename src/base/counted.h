#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace sluice::base {

/// "1 column", "3 columns": a number of what `noun` names, whose plural ends in s.
template <typename Integer>
std::string counted(Integer number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace sluice::base
