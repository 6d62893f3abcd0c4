#include "unit/support/source_path.h"

namespace sluice::testing {

std::filesystem::path source_path(const std::string& path) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto beside = program.parent_path() / "test-data";
  const auto root =
      std::filesystem::exists(beside) ? beside : std::filesystem::path(SLUICE_SOURCE_DIR);
  return path.empty() ? root : root / path;
}

}  // namespace sluice::testing
