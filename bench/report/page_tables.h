#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/result_file.h"

namespace sluice::bench::report {

/// A page whose tables are up to date.
struct WrittenPage {
  std::string text;
  std::map<std::string, std::string> pictures;  ///< SVG files by path
};

/// Writes a page's tables again, and draws its pictures. A table stands between two comments of a
/// line each:
///
///     <!-- table KIND FILE [cell=A,B] [dtype=A,B] [pass=A,B] [name=A,B] -->
///     <!-- end of table -->
///
/// FILE is a results file, by its path from the root of the source tree; the others keep the
/// results that have one of the values. Kinds:
///
///     ratios   a row for each workload (with its cell if they differ), a column for each dtype:
///              time of the best peer / ours,
///              forward / with backward where there are both; for 16 bits of the best peer in
///              either 16-bit type; last the geometric means
///     means    for each cell, dtype and pass: how many, geometric mean, lowest and where, peers
///     peers    the same for each peer by itself
///     times    a row for each workload: our time, the best peer's, their ratio, peak memory
///
/// Below each stand machine, libraries and commits. Within a line a single ratio stands between
///
///     <!-- ratio FILE cell=A dtype=A pass=A name=A -->3.5<!-- end -->
///
/// with one decimal; exactly one result of ours must have these values. A line
///
///     <!-- picture PATH FILE [cell=A,B] ... -->
///
/// asks for a picture at PATH, from the root of the source tree, with the ratios as bars: a plot
/// for each cell, dtype and pass. `read` gives a file's results. Throws Error naming `origin` and
/// the line for a comment that doesn't fit, or results of several machines.
WrittenPage write_tables(std::string_view page, const std::string& origin,
                         const std::function<std::vector<Measurement>(const std::string&)>& read);

}  // namespace sluice::bench::report
