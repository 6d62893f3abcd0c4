#pragma once

#include <fmt/core.h>

#include <string_view>

#include "sluice/warnings.h"

namespace sluice::base {

/// Gives the sentence to the handler or, if that is null or empty, writes it to standard error in
/// one piece, so that lines of several threads don't mix.
void write_warning(const WarningHandler* handler, std::string_view sentence);

template <typename... Args>
void warn(const WarningHandler* handler, fmt::format_string<Args...> format, Args&&... args) {
  write_warning(handler, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sluice::base
