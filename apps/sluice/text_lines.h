#pragma once

#include <string>
#include <vector>

namespace sluice::app {

/// The lines of a text file, "-" for standard input, without line ends; a BOM is dropped. Throws
/// sluice::Error naming the file if it can't be read.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace sluice::app
