// All unit tests in one program.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "runtime/device.h"
#include "unit/training/reversal_task.h"

namespace {

constexpr const char* kUsage =
    "usage: sluice-tests [--gpu | --gpu-list] [GoogleTest's options]\n"
    "  --gpu        run every test that has a GPU to run on, on that GPU alone\n"
    "  --gpu-list   name those tests\n"
    "Without either: all unit tests on the CPU. The last line is `N passed, N failed`.\n\n";

struct Options {
  bool gpu = false, list = false, help = false;
};

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    options.gpu |= argument == "--gpu" || argument == "--gpu-list";
    options.list |= argument == "--gpu-list";
    options.help |= argument == "--help" || argument == "-h";
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
    std::printf("%s\n0 passed, 1 failed\n", error.what());
    return false;
  }
}

/// Prints the count and returns the exit status: none that passed is no success.
int conclude(int status) {
  const auto& all = *::testing::UnitTest::GetInstance();
  const int passed = all.successful_test_count(), skipped = all.skipped_test_count();
  int failed = all.failed_test_count();
  if (failed == 0 && (status != 0 || passed == 0)) failed = 1;
  if (skipped > 0) std::printf("%d skipped\n", skipped);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (const auto status = sluice::training::run_spawned_training(count, arguments)) return *status;
  const Options options = parse(count, arguments);
  if (options.help) std::fputs(kUsage, stdout);
  if (options.gpu) choose_gpu_tests(options);
  ::testing::InitGoogleTest(&count, arguments);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  if (options.gpu && !has_gpu()) return 1;
  return conclude(RUN_ALL_TESTS());
}
