#include "base/warn.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::base {
namespace {

TEST(Warn, TellsTheHandlerAlone) {
  std::vector<std::string> heard;
  const WarningHandler handler = [&](std::string_view warning) { heard.emplace_back(warning); };
  ::testing::internal::CaptureStderr();
  warn(&handler, "{} of {}", 1, "two");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard, std::vector<std::string>{"1 of two"});
}

TEST(Warn, WritesALineWithoutOne) {
  const WarningHandler empty;
  for (const WarningHandler* handler : {static_cast<const WarningHandler*>(nullptr), &empty}) {
    ::testing::internal::CaptureStderr();
    warn(handler, "{} of {}", 1, "two");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "sluice: warning: 1 of two\n");
  }
}

}  // namespace
}  // namespace sluice::base
