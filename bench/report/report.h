#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace sluice::bench::report {

struct ReportOptions {
  std::vector<std::string> files;  ///< what `sluice bench … --json` and bench/peers wrote
  std::string html;                ///< file for the page; empty: none
};

/// Joins the files, prints the table and writes the page. Throws Error.
void run_report(const ReportOptions& options, std::ostream& out);

}  // namespace sluice::bench::report
