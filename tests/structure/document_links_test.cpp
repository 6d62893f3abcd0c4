#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "unit/support/source_path.h"

/// Links between documents lead to files, and from README.md to every document.
namespace sluice::structure {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Files that a document's links name, which stay within the tree.
std::vector<fs::path> links_of(const fs::path& document) {
  static const std::regex link(R"(\]\(([^)\s#]+)(#[^)\s]*)?\))");
  const std::string text = content_of(document);
  std::vector<fs::path> links;
  for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
    const std::string target = (*it)[1];
    if (target.find("://") != std::string::npos) continue;
    links.push_back((document.parent_path() / target).lexically_normal());
  }
  return links;
}

std::set<fs::path> documents_below(const fs::path& folder) {
  std::set<fs::path> documents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".md") documents.insert(entry.path().lexically_normal());
  }
  return documents;
}

TEST(Documents, LinksLeadToFilesAndEveryDocumentIsFound) {
  const fs::path root = testing::source_path("").lexically_normal();
  std::set<fs::path> found{root / "README.md"};
  std::vector<fs::path> left{root / "README.md"};
  while (!left.empty()) {
    const fs::path document = left.back();
    left.pop_back();
    for (const fs::path& link : links_of(document)) {
      EXPECT_TRUE(fs::exists(link)) << document << " links to " << link;
      if (link.extension() == ".md" && found.insert(link).second) left.push_back(link);
    }
  }
  EXPECT_GE(found.size(), 15U);
  for (const char* folder : {"docs", "examples"}) {
    for (const fs::path& document : documents_below(root / folder)) {
      EXPECT_TRUE(found.contains(document)) << "no document links to " << document;
    }
  }
}

}  // namespace
}  // namespace sluice::structure
