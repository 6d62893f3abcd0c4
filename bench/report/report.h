#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace sluice::bench::report {

struct ReportOptions {
  std::vector<std::string> files;  ///< what `sluice bench … --json` and bench/peers wrote
  std::string html;                ///< file for the page; empty: none
  std::string join;                ///< file for all results together; empty: none
};

/// Writes the tables of pages anew (see write_tables); results files are found from the working
/// folder. Names the pages that changed. With `check` it writes nothing, and throws Error if a page
/// would change.
void run_page_tables(const std::vector<std::string>& pages, bool check, std::ostream& out);

/// Joins the files, prints the table and writes the page. Throws Error.
void run_report(const ReportOptions& options, std::ostream& out);

}  // namespace sluice::bench::report
