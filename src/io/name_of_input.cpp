#include "io/name_of_input.h"

namespace sluice::io {

std::string name_of_input(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : "'" + path.string() + "'";
}

}  // namespace sluice::io
