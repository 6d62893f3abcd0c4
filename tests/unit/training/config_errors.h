#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sluice/error.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {

/// What `action` is refused with, which must have this code.
template <typename Action>
std::string error_of(ErrorCode code, Action&& action) {
  const Error error = testing::error_of(action);
  EXPECT_EQ(error.code(), code) << error.what();
  return error.what();
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace sluice::training
