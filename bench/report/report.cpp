#include "bench/report/report.h"

#include <ostream>

#include "base/check.h"
#include "bench/output_file.h"
#include "bench/report/html_report.h"
#include "bench/report/page_tables.h"
#include "bench/report/text_report.h"
#include "io/file.h"

namespace sluice::bench::report {

void run_page_tables(const std::vector<std::string>& pages, bool check, std::ostream& out) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  for (const std::string& page : pages) {
    const std::string text = io::read_file(page, kMostBytes);
    const std::string written =
        write_tables(text, page, [](const std::string& file) { return read_results(file); });
    if (written == text) continue;
    SLUICE_CHECK(!check,
                 "{} has tables that are not those of its results; write them anew by "
                 "sluice bench report --page {}",
                 page, page);
    write_file(page, written);
    out << page << " has new tables\n";
  }
}

void run_report(const ReportOptions& options, std::ostream& out) {
  std::vector<Measurement> measurements;
  for (const std::string& file : options.files) {
    for (Measurement& measurement : read_results(file)) {
      measurements.push_back(std::move(measurement));
    }
  }
  const std::vector<Group> groups = compare(measurements);
  if (!options.join.empty()) write_file(options.join, join_results(options.files));
  if (!options.html.empty()) write_file(options.html, html_page(groups));
  write_text(out, groups);
}

}  // namespace sluice::bench::report
