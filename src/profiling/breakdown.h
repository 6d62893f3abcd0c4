#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/profiler.h"

namespace sluice::profiling {

/// Where time went, in milliseconds over all steps of a profile. Nothing counts twice: time of the
/// host within a span inside another belongs to the inner one, and of GPU work that runs side by
/// side each gets its part of the time.
struct BreakdownRow {
  std::string module, pass;
  std::int64_t calls = 0;  ///< spans of the host
  double host_ms = 0;
  std::int64_t pieces = 0;  ///< kernels, copies and clears of the GPU
  double device_ms = 0;
};

struct KernelRow {
  std::string name;
  std::int64_t runs = 0;
  double device_ms = 0;
};

struct Breakdown {
  std::vector<BreakdownRow> rows;  ///< the longest first, by the device's time if it has a clock
  BreakdownRow rest;               ///< what belongs to no module
  double device_idle_ms = 0;       ///< while it had nothing to run
  double total_ms = 0;             ///< measured; the sum of host_ms, and of device_ms and idle
  std::vector<KernelRow> kernels;  ///< of a device with a clock, the longest first
};

Breakdown break_down(const runtime::Profile& profile);

/// For people: a head that says what was measured, a table, and on a GPU its longest kernels.
/// `device` is where it ran.
std::string breakdown_text(const runtime::Profile& profile, const std::string& device);

}  // namespace sluice::profiling
