#pragma once

#include <filesystem>
#include <string>

namespace sluice::io {

/// A file to read as messages name it: "'dev.tsv'", or "standard input" for "-" (see TextFile).
std::string name_of_input(const std::filesystem::path& path);

}  // namespace sluice::io
