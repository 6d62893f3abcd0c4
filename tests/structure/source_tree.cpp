#include "structure/source_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string_view>

namespace sluice::structure {
namespace {

constexpr std::array<std::string_view, 7> kExtensions{".h",  ".hpp", ".cpp", ".cc",
                                                      ".cu", ".cuh", ".inc"};

SourceFile read_source(const std::filesystem::path& root, const std::filesystem::path& file) {
  static const std::regex include_line(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  static const std::regex macro_include_line(R"(^\s*#\s*include\s*[A-Za-z_].*)");
  static const std::regex conditional_line(R"(^\s*(#\s*if.*\S)\s*)");
  SourceFile source{file.lexically_relative(root).generic_string(), {}, {}};
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  std::string text;
  for (int line = 1; std::getline(stream, text); ++line) {
    if (text.find('#') == std::string::npos) continue;
    std::smatch match;
    if (std::regex_match(text, match, include_line)) {
      source.includes.push_back({line, match[1] == "<", match[2]});
    } else if (std::regex_match(text, macro_include_line)) {
      source.includes.push_back({line, false, "(a macro)"});
    } else if (std::regex_match(text, match, conditional_line)) {
      source.conditionals.push_back({line, match[1]});
    }
  }
  return source;
}

}  // namespace

std::vector<SourceFile> read_sources(const std::filesystem::path& root, const std::string& folder) {
  std::vector<SourceFile> sources;
  if (!std::filesystem::is_directory(root / folder)) return sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file() && std::ranges::count(kExtensions, extension) > 0) {
      sources.push_back(read_source(root, entry.path()));
    }
  }
  std::ranges::sort(sources, {}, &SourceFile::path);
  return sources;
}

}  // namespace sluice::structure
