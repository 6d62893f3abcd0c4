// All unit tests in one program.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "unit/sharded_run.h"
#include "unit/support/skips.h"
#include "unit/support/temporary_folder.h"
#include "unit/support/test_report.h"
#include "unit/training/reversal_task.h"

namespace {

using sluice::testing::TestReport;

constexpr const char* kUsage =
    "usage: sluice-tests [--gpu | --gpu-list] [--jobs=N] [--ratios] [GoogleTest's options]\n"
    "  --gpu        run every test that has a GPU to run on, on that GPU alone, with random cases "
    "of\n"
    "               a new seed (SLUICE_TEST_SEED=N repeats one)\n"
    "  --gpu-list   name those tests\n"
    "  --jobs=N     so many processes side by side, each with a part of the tests; with 1 all run "
    "in\n"
    "               this process (a debugger's or a sanitizer's). Default: 1, with --gpu up to 6\n"
    "  --ratios     print for each implementation and precision the largest error as a share of "
    "its\n"
    "               bound, by kind of check\n"
    "Without --gpu: all unit tests on the CPU. The last line is `N passed, N failed, N skipped`;\n"
    "before it the reasons are counted that tests were skipped for.\n\n";

struct Options {
  bool gpu = false, list = false, help = false, ratios = false;
  int jobs = 0;  ///< 0: the default
};

Options parse(int count, char** arguments) {
  constexpr std::string_view kJobs = "--jobs=";
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    // A death test starts the program again, for that one test.
    if (argument.starts_with("--gtest_internal_run_death_test")) return {.jobs = 1};
    options.gpu |= argument == "--gpu" || argument == "--gpu-list";
    options.list |= argument == "--gpu-list";
    options.help |= argument == "--help" || argument == "-h";
    options.ratios |= argument == "--ratios";
    if (argument.starts_with(kJobs)) {
      std::from_chars(argument.data() + kJobs.size(), argument.data() + argument.size(),
                      options.jobs);
    }
  }
  if (options.jobs <= 0) {
    constexpr unsigned kMostJobs = 6;
    const unsigned halves = std::thread::hardware_concurrency() / 2;
    options.jobs = options.gpu ? static_cast<int>(std::clamp(halves, 1u, kMostJobs)) : 1;
  }
  return options;
}

/// Before GoogleTest reads its own options, which go before these.
void choose_gpu_tests(const Options& options) {
  setenv("SLUICE_TEST_DEVICES", "cuda", 1);
  GTEST_FLAG_SET(filter, "*/cuda*");
  GTEST_FLAG_SET(brief, true);
  GTEST_FLAG_SET(list_tests, options.list);
}

/// Says why there is none, once and not for every test.
bool has_gpu() {
  try {
    std::printf("on %s\n", sluice::runtime::open_device("cuda")->model().c_str());
    return true;
  } catch (const std::exception& error) {
    std::printf("%s\n0 passed, 1 failed, 0 skipped\n", error.what());
    return false;
  }
}

/// A new seed for all random cases, unless one is given.
void draw_seed() {
  setenv("SLUICE_TEST_SEED", std::to_string(std::random_device()()).c_str(), 0);
  std::printf("SLUICE_TEST_SEED=%s\n", getenv("SLUICE_TEST_SEED"));
  std::fflush(stdout);
}

void print_ratios(const TestReport& report) {
  for (const auto& [group, kinds] : report.ratios) {
    std::printf("largest share of a bound, %s:", group.c_str());
    for (const auto& [kind, ratio] : kinds) std::printf(" %s %.3f", kind.c_str(), ratio);
    std::printf("\n");
  }
}

/// Prints the count and returns the exit status: none that passed is no success.
int conclude(TestReport report, int status, const Options& options) {
  if (options.ratios) print_ratios(report);
  if (report.failed == 0 && (status != 0 || report.passed == 0)) report.failed = 1;
  for (const auto& [reason, count] : report.skip_reasons) {
    std::printf("%d skipped: %s\n", count, reason.c_str());
  }
  std::printf("%d passed, %d failed, %d skipped\n", report.passed, report.failed, report.skipped);
  return report.failed == 0 ? 0 : 1;
}

int run_here(const Options& options) {
  const sluice::testing::TemporaryFolder folder;
  sluice::testing::write_test_report(folder / "report");
  sluice::testing::watch_skips(false);
  const int status = RUN_ALL_TESTS();
  return conclude(sluice::testing::read_test_report(folder / "report"), status, options);
}

/// As a part of another process's tests. Programs that tests start from here have no report.
int run_shard(const std::string& report) {
  unsetenv(sluice::testing::kReportVariable);
  sluice::testing::write_test_report(report);
  sluice::testing::watch_skips(false);
  return RUN_ALL_TESTS();
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto status = sluice::training::run_spawned_training(count, arguments)) return *status;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  const Options options = parse(count, arguments);
  if (options.help) std::fputs(kUsage, stdout);
  if (options.gpu) choose_gpu_tests(options);
  ::testing::InitGoogleTest(&count, arguments);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  if (const char* report = getenv(sluice::testing::kReportVariable)) return run_shard(report);
  if (options.gpu && !has_gpu()) return 1;
  if (options.gpu) draw_seed();
  if (options.jobs == 1) return run_here(options);
  return conclude(sluice::testing::run_shards(given, options.jobs), 0, options);
}
