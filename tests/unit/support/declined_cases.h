#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::testing {

/// Counts the cases of one test, some of which an implementation may decline. A test that ran none
/// of its cases compared nothing, so it must not pass: it skips itself with all_declined().
class DeclinedCases {
 public:
  /// Whether the case can run, from the reason against it.
  bool take(std::string_view implementation, const std::optional<std::string>& reason) {
    if (!reason) {
      ++ran_;
      return true;
    }
    if (first_.empty()) first_ = fmt::format("{} declines: {}", implementation, *reason);
    return false;
  }

  /// The first reason, if there were cases and none of them ran.
  std::optional<std::string> all_declined() const {
    if (ran_ > 0 || first_.empty()) return std::nullopt;
    return first_;
  }

 private:
  int ran_ = 0;
  std::string first_;
};

}  // namespace sluice::testing
