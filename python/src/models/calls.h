#pragma once

#include <nanobind/nanobind.h>
#include <sluice/interrupt.h>
#include <sluice/warnings.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice::python {

namespace nb = nanobind;

/// Runs calls of the library without the GIL. Meanwhile its warnings become Python's, and a signal
/// whose handler raises (Ctrl-C) ends the call. One call at a time.
class Calls {
 public:
  Calls() = default;
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// Handlers for the library; this must outlive them.
  WarningHandler warnings();
  InterruptCheck interrupt();

  /// Runs `work` without the GIL. Raises what a filter made of a warning when it is done.
  template <typename Work>
  auto run(const Work& work) {
    raised_.reset();
    looked_ = std::chrono::steady_clock::now();
    if constexpr (std::is_void_v<decltype(work())>) {
      without_gil(work);
      raise();
    } else {
      auto result = without_gil(work);
      raise();
      return result;
    }
  }

  /// Whether it is time to take the GIL and look for signals, which other threads wait for.
  bool is_time();

 private:
  template <typename Work>
  static auto without_gil(const Work& work) {
    const nb::gil_scoped_release released;
    return work();
  }
  void warn(std::string_view warning);
  void check();
  void raise() {
    if (raised_) throw *std::exchange(raised_, std::nullopt);
  }

  std::optional<nb::python_error> raised_;  ///< by the filter of warnings
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace sluice::python
