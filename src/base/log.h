#pragma once

#include <fmt/core.h>

#include <string_view>

namespace sluice::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Writes one line to standard error if `level` reaches SLUICE_LOG (debug, info, warning, error;
/// default warning). Results go to standard output and never through here.
void write_log(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sluice::base
