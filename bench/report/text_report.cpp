#include "bench/report/text_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::bench::report {
namespace {

constexpr const char* kRow = "{:<20} {:<30} {:<32} {:<32} {:<32} {:>9} {:>9}\n";
constexpr const char* kMean = "{:>5} {:>9} {:>9} {:>9} {:>9}  {}\n";

std::string named_time(const Measurement* measurement) {
  if (measurement == nullptr) return "-";
  return fmt::format("{} {}", format_milliseconds(measurement->milliseconds),
                     measurement->implementation);
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}x", *ratio) : "-";
}

void write_group(std::ostream& out, const Group& group) {
  out << '\n' << group.title() << '\n';
  out << fmt::format(kRow, "workload", "sizes", "default, ms", "best own, ms", "best peer, ms",
                     "default", "best own");
  for (const Row& row : group.rows) {
    out << fmt::format(kRow, row.workload.name, row.workload.sizes, named_time(row.default_own()),
                       named_time(row.best_own()), named_time(row.best_peer()),
                       ratio_text(row.ratio_of(row.default_own())),
                       ratio_text(row.ratio_of(row.best_own())));
    std::string all;
    for (const Measurement& m : row.measured) {
      all += fmt::format("{}{} {}{}", all.empty() ? "" : ", ", format_milliseconds(m.milliseconds),
                         m.implementation, m.peer ? " (peer)" : "");
    }
    out << "    " << all << '\n';
  }
}

void write_mean(std::ostream& out, const std::string& label, const std::optional<Summary>& s) {
  if (!s) return;
  out << fmt::format(kMean, s->rows, ratio_text(s->default_mean), ratio_text(s->default_lowest),
                     ratio_text(s->best_mean), ratio_text(s->best_lowest), label);
}

}  // namespace

std::string format_milliseconds(double milliseconds) {
  const int before_point = static_cast<int>(std::floor(std::log10(milliseconds))) + 1;
  return fmt::format("{:.{}f}", milliseconds, std::clamp(3 - before_point, 0, 9));
}

void write_text(std::ostream& out, const std::vector<Group>& groups) {
  out << "Times in milliseconds; ratios are time of the best peer / own time: above 1 is faster.\n";
  for (const Group& group : groups) write_group(out, group);
  const auto all = summarize(groups);
  if (!all) {
    out << "\nNo workload has both a peer and an own default: there is nothing to compare.\n";
    return;
  }
  out << '\n'
      << "Geometric means of the ratios\n"
      << fmt::format(kMean, "rows", "default", "lowest", "best own", "lowest", "of");
  for (const Group& group : groups) {
    write_mean(out, group.title(), summarize(group));
  }
  if (groups.size() > 1) write_mean(out, "all", all);
}

}  // namespace sluice::bench::report
