#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiling/breakdown.h"

namespace sluice::profiling {
namespace {

constexpr std::size_t kMostKernels = 12;

/// One table, with or without the columns of a GPU. Times are means of a step.
class Table {
 public:
  Table(const Breakdown& breakdown, const runtime::Profile& profile)
      : steps_(static_cast<double>(std::max<std::int64_t>(profile.steps, 1))),
        total_ms_(breakdown.total_ms),
        gpu_(profile.has_device) {
    width_ = 15;
    for (const BreakdownRow& row : breakdown.rows) {
      width_ = std::max(width_, row.module.size() + 1 + row.pass.size());
    }
  }

  std::string head() const {
    return gpu_ ? fmt::format("{:<{}} {:>9} {:>9} {:>7} {:>9} {:>9}\n", "module", width_, "kernels",
                              "GPU ms", "share", "calls", "host ms")
                : fmt::format("{:<{}} {:>9} {:>9} {:>7}\n", "module", width_, "calls", "ms",
                              "share");
  }
  std::string line(const BreakdownRow& row) const {
    const std::string name = row.pass.empty() ? row.module : row.module + " " + row.pass;
    if (!gpu_) return line(name, count(row.calls), row.host_ms);
    return line(name, count(row.pieces), row.device_ms) +
           fmt::format(" {:>9} {:>9.3f}", count(row.calls), row.host_ms / steps_);
  }
  /// Without the columns of the host on a GPU.
  std::string line(const std::string& name, const std::string& count, double ms) const {
    return fmt::format("{:<{}} {:>9} {:>9.3f} {:>5.1f} %", name, width_, count, ms / steps_,
                       100 * ms / total_ms_);
  }
  std::string count(std::int64_t all) const {
    if (all == 0) return "";
    const double mean = static_cast<double>(all) / steps_;
    return mean == std::floor(mean) ? fmt::format("{:.0f}", mean) : fmt::format("{:.1f}", mean);
  }
  std::string kernel(const KernelRow& row) const {
    return fmt::format("{:>9} {:>9.3f} {:>5.1f} %  {}", count(row.runs), row.device_ms / steps_,
                       100 * row.device_ms / total_ms_, row.name);
  }
  std::string sum() const {
    const std::string text = line("in all", "", total_ms_);
    return gpu_ ? text + fmt::format(" {:>9} {:>9.3f}", "", total_ms_ / steps_) : text;
  }

 private:
  double steps_, total_ms_;
  bool gpu_;
  std::size_t width_;
};

std::string steps_of(const runtime::Profile& profile) {
  if (profile.first_step == profile.last_step) {
    return fmt::format("{} {}", profile.step_name, profile.first_step);
  }
  return fmt::format("{}{} {} to {}", profile.step_name,
                     profile.step_name.ends_with("ch") ? "es" : "s", profile.first_step,
                     profile.last_step);
}

}  // namespace

std::string breakdown_text(const runtime::Profile& profile, const std::string& device) {
  const Breakdown breakdown = break_down(profile);
  const Table table(breakdown, profile);
  std::string text = fmt::format(
      "Where the time went, {} on {}: {:.3f} ms each\n\n", steps_of(profile), device,
      breakdown.total_ms / static_cast<double>(std::max<std::int64_t>(profile.steps, 1)));
  text += table.head();
  for (const BreakdownRow& row : breakdown.rows) text += table.line(row) + "\n";
  BreakdownRow rest = breakdown.rest;
  rest.module = "not attributed";
  text += table.line(rest) + "\n";
  if (profile.has_device) text += table.line("GPU idle", "", breakdown.device_idle_ms) + "\n";
  text += table.sum() + "\n";
  if (breakdown.kernels.empty()) return text;
  text += fmt::format("\n{:>9} {:>9} {:>7}  kernel\n", "runs", "GPU ms", "share");
  for (std::size_t i = 0; i < std::min(kMostKernels, breakdown.kernels.size()); ++i) {
    const KernelRow& kernel = breakdown.kernels[i];
    text += table.kernel(kernel) + "\n";
  }
  return text;
}

}  // namespace sluice::profiling
