#pragma once

#include <string>
#include <utility>

#include "sluice/error.h"

namespace sluice::testing {

/// The message of the Error that `body` throws, "" if it throws none.
template <typename Body>
std::string message_of(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace sluice::testing
