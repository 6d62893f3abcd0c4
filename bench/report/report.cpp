#include "bench/report/report.h"

#include <filesystem>
#include <map>
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
    const WrittenPage written =
        write_tables(io::read_file(page, kMostBytes), page,
                     [](const std::string& file) { return read_results(file); });
    std::map<std::string, std::string> files = written.pictures;
    files[page] = written.text;
    for (const auto& [path, text] : files) {
      if (std::filesystem::exists(path) && io::read_file(path, kMostBytes) == text) continue;
      SLUICE_CHECK(!check,
                   "{} is not what the results say; write it anew by sluice bench report --page {}",
                   path, page);
      write_file(path, text);
      out << path << " is new\n";
    }
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
