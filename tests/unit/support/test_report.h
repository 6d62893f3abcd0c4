#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace sluice::testing {

/// What came of the tests of a program, or of several.
struct TestReport {
  int planned = 0, passed = 0, failed = 0, skipped = 0;
  std::map<std::string, int> skip_reasons;
  /// By suite and parameter: the largest share of its bound that an error of a kind takes.
  std::map<std::string, std::map<std::string, double>> ratios;
  std::string running;  ///< the test that had begun and not ended

  int ended() const { return passed + failed + skipped; }
  void add(const TestReport& other);
};

/// Has this program write a report of its tests, line by line, as they begin and end. To be called
/// between InitGoogleTest and watch_skips.
void write_test_report(const std::filesystem::path& path);
/// What a program has written, if it came to an end or not.
TestReport read_test_report(const std::filesystem::path& path);

}  // namespace sluice::testing
