#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "unit/support/source_path.h"

/// bench/results keeps what a page cites; the history keeps the rest.
namespace sluice::structure {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 100;
constexpr std::uintmax_t kMostBytes = 3'000'000;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// All pages that may cite a result.
std::string pages(const fs::path& root) {
  std::string text = content_of(root / "README.md");
  for (const char* folder : {"docs", "bench/results"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") text += content_of(entry.path());
    }
  }
  return text;
}

TEST(Results, AreFewSmallAndCited) {
  const fs::path root = testing::source_path("").lexically_normal();
  const std::string text = pages(root);
  std::size_t files = 0;
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "bench/results")) {
    if (!entry.is_regular_file()) continue;
    ++files;
    bytes += entry.file_size();
    if (entry.path() == root / "bench/results/README.md") continue;
    EXPECT_NE(text.find(entry.path().filename().string()), std::string::npos)
        << "no page names " << entry.path() << "; cite it or remove it";
  }
  EXPECT_GE(files, 5U) << "are these the results?";
  EXPECT_LE(files, kMostFiles) << "remove what no page needs; the history keeps it";
  EXPECT_LE(bytes, kMostBytes) << "remove what no page needs; the history keeps it";
}

TEST(Headline, NamesPartsOnceAndFilesThatAreThere) {
  const fs::path root = testing::source_path("").lexically_normal();
  std::istringstream lines(content_of(root / "bench/headline.parts"));
  static const std::regex part(R"(\[(cuda|cpu) ([a-z0-9_]+)\])");
  static const std::regex file(R"(--(?:shapes|config) (\S+)|peer (\S+))");
  std::set<std::string> parts;
  std::string current;
  std::size_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    if (std::smatch found; std::regex_match(line, found, part)) {
      current = found[2];
      EXPECT_TRUE(parts.insert(current).second) << current << " stands there twice";
      continue;
    }
    ASSERT_FALSE(current.empty()) << line << " belongs to no part";
    EXPECT_TRUE(line.starts_with("sluice ") || line.starts_with("peer ")) << line;
    EXPECT_TRUE(line.find("$JSON") != std::string::npos || line.starts_with("sluice data "))
        << line;
    for (std::sregex_iterator it(line.begin(), line.end(), file), end; it != end; ++it) {
      const fs::path path =
          (*it)[1].matched ? root / (*it)[1].str() : root / "bench/peers" / (*it)[2].str();
      EXPECT_TRUE(fs::exists(path)) << line;
    }
    ++commands;
  }
  EXPECT_GE(parts.size(), 10U);
  EXPECT_GE(commands, parts.size());
}

}  // namespace
}  // namespace sluice::structure
