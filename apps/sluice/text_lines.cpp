#include "text_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "sluice/error.h"

namespace sluice::app {
namespace {

std::vector<std::string> lines_of(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
  }
  if (!lines.empty() && lines.front().starts_with("\xEF\xBB\xBF")) lines.front().erase(0, 3);
  return lines;
}

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  if (path == "-") return lines_of(std::cin);
  std::ifstream stream(path);
  std::vector<std::string> lines = lines_of(stream);
  if (stream.bad() || !stream.eof()) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                "cannot read " + path + ": " + std::strerror(errno));
  }
  return lines;
}

}  // namespace sluice::app
