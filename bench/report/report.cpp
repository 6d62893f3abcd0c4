#include "bench/report/report.h"

#include "bench/output_file.h"
#include "bench/report/html_report.h"
#include "bench/report/text_report.h"

namespace sluice::bench::report {

void run_report(const ReportOptions& options, std::ostream& out) {
  std::vector<Measurement> measurements;
  for (const std::string& file : options.files) {
    for (Measurement& measurement : read_results(file)) {
      measurements.push_back(std::move(measurement));
    }
  }
  const std::vector<Group> groups = compare(measurements);
  if (!options.html.empty()) write_file(options.html, html_page(groups));
  write_text(out, groups);
}

}  // namespace sluice::bench::report
