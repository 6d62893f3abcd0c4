#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bad_line.h"
#include "data/line_reader.h"

namespace sluice::data {

/// The place of a column; throws ErrorCode::kNotFound, naming the file, with those that there are.
std::size_t find_column(const std::filesystem::path& path, const std::vector<std::string>& columns,
                        std::string_view name);

/// A table of text with a name for each column.
struct Table {
  std::filesystem::path path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< as many fields each as there are columns
  std::vector<std::int64_t> lines;             ///< of the file, from 1, where each row begins

  /// "'x.csv' line 7"
  std::string where(std::size_t row) const;
  /// As find_column().
  std::size_t column(std::string_view name) const { return find_column(path, columns, name); }
};

/// Reads CSV or TSV, plain or gzip, a row at a time: a line of names, then rows. Fields stand
/// between tabs if the first line has one, else between commas. A field in double quotes may hold
/// separators, line ends and, doubled, quotes (RFC 4180); blank lines are passed over. Throws
/// ErrorCode::kFormat with file and line for a row of another number of fields, text behind a
/// closing quote, a quote that is never closed, a name that is empty or stands there twice; and as
/// LineReader.
class TableReader {
 public:
  /// Reads the names.
  explicit TableReader(const std::filesystem::path& path);

  const std::vector<std::string>& columns() const { return columns_; }
  /// The fields of the next row, as many as there are columns; nothing at the end. It can be called
  /// again after a row that was refused.
  std::optional<std::vector<std::string>> next();
  /// Of the file, from 1, where the row begins that next() gave last.
  std::int64_t first_line() const { return first_line_; }
  /// As LineReader::line_number().
  std::int64_t line_number() const { return lines_.line_number(); }
  /// Of the file, from 1, the line that next() refused last: where its row begins, or of a line
  /// that is no text itself.
  std::int64_t refused_line() const { return refused_line_ > 0 ? refused_line_ : line_number(); }

 private:
  [[noreturn]] void refuse(std::string_view what);
  std::vector<std::string> split(std::string_view line);

  LineReader lines_;
  std::vector<std::string> columns_;
  char separator_ = ',';
  std::int64_t first_line_ = 0;
  std::int64_t refused_line_ = 0;  ///< 0: none that began a row
};

/// Throws ErrorCode::kFormat for a file without rows.
[[noreturn]] void refuse_without_rows(const std::filesystem::path& path);

/// A whole table. Throws ErrorCode::kFormat also for a file without rows; else as TableReader. With
/// `on_bad` rows that are refused are left out, and there may be none left.
Table read_table(const std::filesystem::path& path, const OnBadLine& on_bad = {});

/// The names in a table's first line; none if read_table would refuse it or read on.
std::vector<std::string> column_names(std::string_view line);

}  // namespace sluice::data
