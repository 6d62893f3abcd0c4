#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice::structure {

struct Include {
  int line = 0;
  bool angled = false;  ///< <...> rather than "..."
  std::string name;     ///< as written between the brackets
};

/// A line that begins with #if, #ifdef or #ifndef.
struct Conditional {
  int line = 0;
  std::string text;  ///< without the spaces around it: "#ifdef __cplusplus"
};

struct SourceFile {
  std::string path;  ///< from the root, with forward slashes: "src/base/check.h"
  std::vector<Include> includes;
  std::vector<Conditional> conditionals;
};

/// The C++ and CUDA sources below `folder` of `root`, in order of their paths; none if there is no
/// such folder.
std::vector<SourceFile> read_sources(const std::filesystem::path& root, const std::string& folder);

}  // namespace sluice::structure
