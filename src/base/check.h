#pragma once

#include <fmt/core.h>

#include <string_view>

#include "sluice/error.h"

namespace sluice::base {

/// Throws Error with a formatted sentence.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void fail_assertion(const char* file, int line, const char* condition);

}  // namespace sluice::base

/// Refuses a bad argument or shape with a formatted sentence (ErrorCode::kInvalidArgument).
#define SLUICE_CHECK(condition, ...)                                            \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::sluice::base::fail(::sluice::ErrorCode::kInvalidArgument, __VA_ARGS__); \
  } while (false)

/// States an invariant of our own code (ErrorCode::kInternal, with file and line).
#define SLUICE_ASSERT(condition)                                      \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::sluice::base::fail_assertion(__FILE__, __LINE__, #condition); \
  } while (false)
