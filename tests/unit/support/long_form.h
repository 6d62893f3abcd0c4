#pragma once

#include <stdlib.h>

#include <cstdint>

namespace sluice::testing {

/// A number of a test that has a long form: what the environment variable holds, which
/// `./dev test-ranks` sets, else `otherwise`.
inline std::int64_t long_form(const char* variable, std::int64_t otherwise) {
  const char* number = getenv(variable);
  return number == nullptr ? otherwise : atoll(number);
}

}  // namespace sluice::testing
