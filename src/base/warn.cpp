#include "base/warn.h"

#include <cstdio>

namespace sluice::base {

void write_warning(const WarningHandler* handler, std::string_view sentence) {
  if (handler != nullptr && *handler) return (*handler)(sentence);
  const std::string line = fmt::format("sluice: warning: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace sluice::base
