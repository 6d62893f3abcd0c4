#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "end_to_end/workplace.h"
#include "unit/support/source_path.h"

/// The pages of docs/reference are what the program writes.
namespace sluice::end_to_end {
namespace {

std::string page(const std::string& name) {
  std::ifstream file(testing::source_path(std::string("docs/reference/") + name + ".md"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Of the first line that differs, for messages.
std::string first_difference(const std::string& page, const std::string& written) {
  const std::vector<std::string> a = split(page, '\n'), b = split(written, '\n');
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto line = [&](const auto& lines) { return i < lines.size() ? lines[i] : "(the end)"; };
  return "line " + std::to_string(i + 1) + "\n  the page: " + line(a) +
         "\n  the program: " + line(b);
}

class Reference : public ::testing::TestWithParam<const char*> {};

TEST_P(Reference, IsWhatTheProgramWrites) {
  const sluice::testing::TemporaryFolder folder;
  const Outcome outcome = run(folder.path(), {"reference", GetParam()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(page(GetParam()) == outcome.out)
      << "docs/reference/" << GetParam() << ".md differs: write it anew by `sluice reference "
      << GetParam() << " > docs/reference/" << GetParam() << ".md`; "
      << first_difference(page(GetParam()), outcome.out);
}

INSTANTIATE_TEST_SUITE_P(Pages, Reference, ::testing::Values("config", "commands"),
                         [](const auto& page) { return std::string(page.param); });

// A link to a heading that is not there leads nowhere, and nobody is told.
TEST_P(Reference, LinksLeadToHeadings) {
  const std::string text = page(GetParam());
  std::vector<std::string> anchors;
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("#")) continue;
    std::string anchor = line.substr(line.find(' ') + 1);
    std::erase(anchor, '.');
    for (char& c : anchor) c = c == ' ' ? '-' : static_cast<char>(std::tolower(c));
    anchors.push_back(anchor);
  }
  std::size_t links = 0;
  for (std::size_t at = 0; (at = text.find("](#", at)) != std::string::npos; ++links) {
    at += 3;
    const std::string wanted = text.substr(at, text.find(')', at) - at);
    EXPECT_NE(std::find(anchors.begin(), anchors.end(), wanted), anchors.end()) << wanted;
  }
  EXPECT_GE(links, 20U);
}

}  // namespace
}  // namespace sluice::end_to_end
