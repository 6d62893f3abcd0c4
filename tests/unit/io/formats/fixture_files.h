#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "io/zip_archive.h"
#include "unit/support/source_path.h"

namespace sluice::io::formats {

/// The path of a file in tests/unit/io/formats/fixtures, such as "torch/module.pt".
inline std::filesystem::path fixture_path(const std::string& name) {
  return testing::source_path("tests/unit/io/formats/fixtures/" + name);
}

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.native());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A member of a zip file of fixtures.
inline std::string bytes_of_member(const std::string& archive_name, const std::string& name) {
  ZipArchive archive(fixture_path(archive_name));
  for (const ZipArchive::Member& member : archive.members()) {
    if (member.name != name) continue;
    std::string bytes(static_cast<std::size_t>(member.bytes), '\0');
    archive.open(member);
    if (archive.read(bytes) != bytes.size()) throw std::runtime_error("short " + name);
    return bytes;
  }
  throw std::runtime_error("no member " + name);
}

}  // namespace sluice::io::formats
