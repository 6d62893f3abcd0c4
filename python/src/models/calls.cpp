#include "calls.h"

#include <string>

namespace sluice::python {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};
// The caller of the function in sluice/ that called the module.
constexpr int kCallersFrame = 2;

}  // namespace

WarningHandler Calls::warnings() {
  return [this](std::string_view warning) { warn(warning); };
}

InterruptCheck Calls::interrupt() {
  return [this] { check(); };
}

bool Calls::is_time() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kBetweenLooks) return false;
  looked_ = now;
  return true;
}

// Must not throw: what the filter raises waits for the next check or the end of the call.
void Calls::warn(std::string_view warning) {
  const nb::gil_scoped_acquire acquired;
  const std::string text(warning);
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), kCallersFrame) == 0) return;
  nb::python_error error;
  if (!raised_) raised_.emplace(std::move(error));
}

void Calls::check() {
  if (!is_time()) return;
  const nb::gil_scoped_acquire acquired;
  raise();
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace sluice::python
