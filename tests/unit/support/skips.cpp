#include "unit/support/skips.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "runtime/device.h"
#include "sluice/error.h"
#include "unit/support/source_path.h"

namespace sluice::testing {
namespace {

constexpr std::string_view kSeparator = " | ", kNegation = "no-";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The name of a GPU that the tests run on; none where they run on none.
std::optional<std::string> gpu_model(const char* device) {
  const char* chosen = getenv("SLUICE_TEST_DEVICES");
  if (chosen == nullptr || std::string_view(chosen).find("cuda") == std::string_view::npos) {
    return std::nullopt;
  }
  try {
    return runtime::open_device(device)->model();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_hopper(const std::string& model) {
  constexpr std::array kNames{"H100", "H200", "H800", "H20", "GH200"};
  for (const char* name : kNames) {
    if (std::regex_search(model, std::regex("\\b" + std::string(name) + "\\b"))) return true;
  }
  return false;
}

bool processor_has(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  std::string word;
  while (file >> word && word != "flags") {
  }
  std::string flags;
  std::getline(file, flags);
  std::istringstream words(flags);
  while (words >> word) {
    if (word == flag) return true;
  }
  return false;
}

/// The first line of what GTEST_SKIP was given; after it stand traces.
std::string reason_of(const ::testing::TestPartResult& part) {
  const std::string message = part.message();
  return message.substr(0, message.find('\n'));
}

class SkipListener : public ::testing::EmptyTestEventListener {
 public:
  explicit SkipListener(bool counts) : counts_(counts) {}

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    if (!result.Skipped()) return;
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    std::string reason;
    for (int i = 0; i < result.total_part_count(); ++i) {
      if (result.GetTestPartResult(i).skipped()) reason = reason_of(result.GetTestPartResult(i));
    }
    if (is_allowed(name, reason)) {
      ++reasons_[reason];
    } else {
      ADD_FAILURE() << name << " was skipped for a reason that tests/allowed_skips.txt does not "
                    << "allow on this machine: '" << reason << "'";
    }
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    for (const auto& [reason, count] : reasons_) {
      if (counts_) std::printf("%d skipped: %s\n", count, reason.c_str());
    }
    std::fflush(stdout);
  }

 private:
  bool is_allowed(const std::string& name, const std::string& reason) {
    try {
      if (!list_) list_.emplace(read(source_path("tests/allowed_skips.txt")));
      return list_->allow(name, reason, machine_has);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
      return false;
    }
  }

  const bool counts_;
  std::optional<AllowedSkips> list_;
  std::map<std::string, int> reasons_;
};

}  // namespace

AllowedSkips::AllowedSkips(std::string_view text) {
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t first = line.find(kSeparator);
    const std::size_t second =
        first == std::string::npos ? first : line.find(kSeparator, first + kSeparator.size());
    if (second == std::string::npos) {
      throw std::runtime_error("line " + std::to_string(number) +
                               " of the allowed skips is not `MACHINE | TESTS | REASON`: " + line);
    }
    const std::size_t tests = first + kSeparator.size();
    rules_.push_back({line.substr(0, first), line.substr(tests, second - tests),
                      line.substr(second + kSeparator.size())});
  }
}

bool AllowedSkips::allow(const std::string& test, const std::string& reason, const Has& has) const {
  for (const Rule& rule : rules_) {
    if (!std::regex_match(reason, std::regex(rule.reason))) continue;
    if (!std::regex_match(test, std::regex(rule.tests))) continue;
    if (rule.machine == "any") return true;
    const bool without = rule.machine.starts_with(kNegation);
    const std::string what = without ? rule.machine.substr(kNegation.size()) : rule.machine;
    if (has(what) != without) return true;
  }
  return false;
}

bool machine_has(const std::string& what) {
  if (what == "driver") return std::filesystem::exists("/proc/driver/nvidia/version");
  if (what == "gpu") return gpu_model("cuda").has_value();
  if (what == "second_gpu") return gpu_model("cuda:1").has_value();
  if (what == "hopper") return is_hopper(gpu_model("cuda").value_or(""));
  return processor_has(what);
}

void watch_skips(bool counts) {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SkipListener(counts));
}

}  // namespace sluice::testing
