#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/bad_line.h"

namespace sluice::data {

/// A table of text with a name for each column.
struct Table {
  std::filesystem::path path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< as many fields each as there are columns
  std::vector<std::int64_t> lines;             ///< of the file, from 1, where each row begins

  /// "'x.csv' line 7"
  std::string where(std::size_t row) const;
  /// The place of a column; throws ErrorCode::kNotFound with those that there are.
  std::size_t column(std::string_view name) const;
};

/// Reads CSV or TSV, plain or gzip: a line of names, then rows. Fields stand between tabs if the
/// first line has one, else between commas. A field in double quotes may hold separators, line ends
/// and, doubled, quotes (RFC 4180); blank lines are passed over. Throws ErrorCode::kFormat with
/// file and line for a row of another number of fields, text behind a closing quote, a quote that
/// is never closed, a name that is empty or stands there twice, or a file without rows; and as
/// LineReader. With `on_bad` rows that are refused are left out.
Table read_table(const std::filesystem::path& path, const OnBadLine& on_bad = {});

/// The names in a table's first line; none if read_table would refuse it or read on.
std::vector<std::string> column_names(std::string_view line);

}  // namespace sluice::data
