#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "unit/support/skips.h"
#include "unit/support/source_path.h"

/// What keeps a failure from passing as a skip.
namespace sluice::testing {
namespace {

constexpr const char* kRules =
    "# a comment\n"
    "\n"
    "any | Matmul\\..*/cpu | this device has no graphs\n"
    "no-avx2 | .* | no AVX2( with FMA)?\n"
    "gpu | .*/cuda | it holds [0-9]+ units\n";

bool allows(const std::string& test, const std::string& reason, const std::string& machine) {
  return AllowedSkips(kRules).allow(test, reason,
                                    [&](const std::string& what) { return what == machine; });
}

TEST(AllowedSkips, AreThoseOfTheList) {
  EXPECT_TRUE(allows("Matmul.CanBeCaptured/cpu", "this device has no graphs", "avx2"));
  EXPECT_FALSE(allows("Matmul.CanBeCaptured/cuda", "this device has no graphs", "avx2"));
  EXPECT_FALSE(allows("Matmul.CanBeCaptured/cpu", "this device has no graphs at all", "avx2"));
  EXPECT_FALSE(allows("Matmul.CanBeCaptured/cpu", "", "avx2"));
}

TEST(AllowedSkips, DependOnTheMachine) {
  EXPECT_TRUE(allows("A.B", "no AVX2 with FMA", ""));
  EXPECT_FALSE(allows("A.B", "no AVX2 with FMA", "avx2"));
  EXPECT_TRUE(allows("A.B/cuda", "it holds 12 units", "gpu"));
  EXPECT_FALSE(allows("A.B/cuda", "it holds 12 units", ""));
}

TEST(AllowedSkips, RefuseWhatIsNoRule) {
  try {
    AllowedSkips("any | .* | a\nany | b\n");
    ADD_FAILURE() << "took a line of two columns";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

// A rule for all reasons of all tests would let every failure through.
TEST(AllowedSkips, OfThisTreeAreRules) {
  std::ifstream file(source_path("tests/allowed_skips.txt"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const AllowedSkips list(text);
  const auto everything = [](const std::string&) { return true; };
  const auto nothing = [](const std::string&) { return false; };
  for (const char* test : {"Suite.Test", "RecurrentStack.EqualsOracle/cuda_graph_float32"}) {
    EXPECT_FALSE(list.allow(test, "the result was wrong", everything)) << test;
    EXPECT_FALSE(list.allow(test, "the result was wrong", nothing)) << test;
  }
}

// Runs this test anew, which then skips itself.
TEST(AllowedSkips, FailATestThatSkipsForAnotherReason) {
  constexpr const char* kSkips = "SLUICE_TEST_SKIPS_ITSELF";
  if (getenv(kSkips) != nullptr) GTEST_SKIP() << "the result was wrong";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = std::string(kSkips) + "=1 '" + program +
                              "' --gtest_filter=AllowedSkips.FailATest* >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace sluice::testing
