#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

}  // namespace
}  // namespace sluice::structure
