#pragma once

#include <string>
#include <vector>

#include "unit/support/test_report.h"

namespace sluice::testing {

/// Names, in the environment of a process that runs a shard, the file that it writes its report to.
inline constexpr const char* kReportVariable = "SLUICE_TEST_REPORT";

/// Runs this program anew for each of some shards of its tests (GoogleTest's GTEST_TOTAL_SHARDS),
/// so many of them at a time, with these arguments. Prints what failed as it comes. Tests that a
/// shard didn't come to, because one before them ended the process, count as failed.
TestReport run_shards(const std::vector<std::string>& arguments, int jobs);

}  // namespace sluice::testing
