#pragma once

#include <filesystem>
#include <string>

namespace sluice::testing {

/// A file or folder of the source tree that tests read, by its path there. It is looked for in
/// test-data/ beside the program, where a bundle has it, else in the tree that this was built from.
inline std::filesystem::path source_path(const std::string& path) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto beside = program.parent_path() / "test-data";
  return (std::filesystem::exists(beside) ? beside : std::filesystem::path(SLUICE_SOURCE_DIR)) /
         path;
}

}  // namespace sluice::testing
