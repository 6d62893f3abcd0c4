#pragma once

#include <filesystem>
#include <string>

namespace sluice::testing {

/// A file or folder of the source tree that tests read, by its path there ("" is the root). It is
/// looked for in test-data/ beside the program, where a bundle has it, else in the tree that this
/// was built from.
std::filesystem::path source_path(const std::string& path);

}  // namespace sluice::testing
