#include "unit/support/test_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace sluice::testing {
namespace {

constexpr std::string_view kRatioPrefix = "largest_";

std::string name_of(const ::testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

/// Text without what separates lines and columns.
std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::ranges::replace(text, '\t', ' ');
  return text;
}

class ReportWriter : public ::testing::EmptyTestEventListener {
 public:
  explicit ReportWriter(const std::filesystem::path& path) : file_(path) {}

  void OnTestIterationStart(const ::testing::UnitTest& all, int) override {
    line("planned", std::to_string(all.test_to_run_count()));
  }
  void OnTestStart(const ::testing::TestInfo& test) override { line("begin", name_of(test)); }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    for (int i = 0; i < result.test_property_count(); ++i) {
      const std::string key = result.GetTestProperty(i).key();
      if (!key.starts_with(kRatioPrefix)) continue;
      line("ratio", key.substr(kRatioPrefix.size()) + "\t" + result.GetTestProperty(i).value());
    }
    std::string reason;
    for (int i = 0; i < result.total_part_count(); ++i) {
      if (result.GetTestPartResult(i).skipped()) {
        reason = one_line(result.GetTestPartResult(i).message());
      }
    }
    if (result.Skipped()) return line("skipped", reason);
    line(result.Passed() ? "passed" : "failed", "");
  }

 private:
  void line(const std::string& what, const std::string& rest) {
    file_ << what << '\t' << rest << std::endl;  // flushed: the next test may end the program
  }

  std::ofstream file_;
};

/// "Suite.Test/parameter" -> "Suite/parameter".
std::string group_of(const std::string& test) {
  const std::size_t slash = test.rfind('/');
  return test.substr(0, test.find('.')) + (slash == std::string::npos ? "" : test.substr(slash));
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream stream(line);
  for (std::string column; std::getline(stream, column, '\t');) columns.push_back(column);
  columns.resize(3);
  return columns;
}

}  // namespace

void TestReport::add(const TestReport& other) {
  planned += other.planned;
  passed += other.passed;
  failed += other.failed;
  skipped += other.skipped;
  for (const auto& [reason, count] : other.skip_reasons) skip_reasons[reason] += count;
  for (const auto& [group, kinds] : other.ratios) {
    for (const auto& [kind, ratio] : kinds) {
      double& largest = ratios[group][kind];
      largest = std::max(largest, ratio);
    }
  }
}

void write_test_report(const std::filesystem::path& path) {
  ::testing::UnitTest::GetInstance()->listeners().Append(new ReportWriter(path));
}

TestReport read_test_report(const std::filesystem::path& path) {
  TestReport report;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> columns = columns_of(line);
    const std::string& what = columns[0];
    if (what == "planned") report.planned = std::atoi(columns[1].c_str());
    if (what == "begin") report.running = columns[1];
    if (what == "ratio") {
      double& largest = report.ratios[group_of(report.running)][columns[1]];
      largest = std::max(largest, std::strtod(columns[2].c_str(), nullptr));
    }
    if (what == "skipped") ++report.skip_reasons[columns[1]];
    report.passed += what == "passed" ? 1 : 0;
    report.failed += what == "failed" ? 1 : 0;
    report.skipped += what == "skipped" ? 1 : 0;
    if (what == "passed" || what == "failed" || what == "skipped") report.running.clear();
  }
  return report;
}

}  // namespace sluice::testing
