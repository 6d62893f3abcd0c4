#include "base/log.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace sluice::base {
namespace {

constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};

LogLevel threshold() {
  const char* wanted = std::getenv("SLUICE_LOG");
  for (std::size_t i = 0; wanted != nullptr && i < kNames.size(); ++i) {
    if (kNames[i] == wanted) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarning;
}

}  // namespace

void write_log(LogLevel level, std::string_view message) {
  if (level < threshold()) return;
  const std::string line =
      fmt::format("sluice: {}: {}\n", kNames[static_cast<std::size_t>(level)], message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace sluice::base
