#include "data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "data/line_reader.h"
#include "io/name_of_input.h"

namespace sluice::data {
namespace {

using base::fail;

char separator_of(std::string_view first_line) {
  return first_line.find('\t') != std::string_view::npos ? '\t' : ',';
}

/// The field whose opening quote is at `at`, which moves behind the closing one.
template <typename More, typename Refuse>
std::string quoted_field(std::string& rest, std::size_t& at, const More& more,
                         const Refuse& refuse) {
  std::string field;
  ++at;
  while (true) {
    const std::size_t quote = rest.find('"', at);
    if (quote == std::string::npos) {
      field.append(rest, at).push_back('\n');
      if (field.size() > LineReader::kMaxLineBytes) refuse("a quoted field is too long");
      const std::optional<std::string_view> line = more();
      if (!line) refuse("a quote is never closed");
      rest = *line;
      at = 0;
      continue;
    }
    field.append(rest, at, quote - at);
    at = quote + 1;
    if (at == rest.size() || rest[at] != '"') return field;
    field.push_back('"');
    ++at;
  }
}

/// The fields of a record that begins with `line` and goes on, where a quoted field does, in the
/// lines that more() gives. refuse() throws what is wrong with it.
template <typename More, typename Refuse>
std::vector<std::string> split_record(std::string_view line, char separator, const More& more,
                                      const Refuse& refuse) {
  std::vector<std::string> fields;
  std::string rest(line);
  std::size_t at = 0;
  while (true) {
    if (at < rest.size() && rest[at] == '"') {
      fields.push_back(quoted_field(rest, at, more, refuse));
      if (at < rest.size() && rest[at] != separator) {
        refuse(fmt::format(
            "text follows the closing quote of field {}; within a quoted field, quotes are "
            "doubled",
            fields.size()));
      }
    } else {
      const std::size_t end = std::min(rest.find(separator, at), rest.size());
      fields.push_back(rest.substr(at, end - at));
      at = end;
    }
    if (at == rest.size()) return fields;
    ++at;  // the separator
  }
}

void check_names(const std::vector<std::string>& columns, const std::string& where) {
  for (auto name = columns.begin(); name != columns.end(); ++name) {
    if (name->empty()) fail(ErrorCode::kFormat, "{}: a column has no name", where);
    if (std::find(columns.begin(), name, *name) != name) {
      fail(ErrorCode::kFormat, "{}: two columns have the name '{}'", where, *name);
    }
  }
}

}  // namespace

void TableReader::refuse(std::string_view what) {
  refused_line_ = first_line_;
  fail(ErrorCode::kFormat, "{} line {}: {}", io::name_of_input(lines_.path()), first_line_, what);
}

TableReader::TableReader(const std::filesystem::path& path) : lines_(path) {
  auto line = lines_.next();
  while (line && line->empty()) line = lines_.next();
  if (!line) return;
  first_line_ = lines_.line_number();
  separator_ = separator_of(*line);
  columns_ = split(*line);
  check_names(columns_, fmt::format("{} line {}", io::name_of_input(path), first_line_));
}

std::optional<std::vector<std::string>> TableReader::next() {
  refused_line_ = 0;
  auto line = lines_.next();
  while (line && line->empty()) line = lines_.next();
  if (!line) return std::nullopt;
  first_line_ = lines_.line_number();
  std::vector<std::string> fields = split(*line);
  if (fields.size() != columns_.size()) {
    refuse(fmt::format("it has {}, but the first line names {}",
                       base::counted(fields.size(), "field"),
                       base::counted(columns_.size(), "column")));
  }
  return fields;
}

std::vector<std::string> TableReader::split(std::string_view line) {
  return split_record(
      line, separator_, [this] { return lines_.next(); },
      [this](std::string_view what) { refuse(what); });
}

std::string Table::where(std::size_t row) const {
  return fmt::format("{} line {}", io::name_of_input(path), lines[row]);
}

std::size_t find_column(const std::filesystem::path& path, const std::vector<std::string>& columns,
                        std::string_view name) {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    fail(ErrorCode::kNotFound, "{} has no column '{}'; its columns are {}", io::name_of_input(path),
         name, fmt::join(columns, ", "));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

void refuse_without_rows(const std::filesystem::path& path) {
  fail(ErrorCode::kFormat, "{} has no rows; it needs a line with the columns' names, and more",
       io::name_of_input(path));
}

Table read_table(const std::filesystem::path& path, const OnBadLine& on_bad) {
  TableReader reader(path);
  Table table{path, reader.columns(), {}, {}};
  read_lines_of(reader, on_bad, [&] {
    auto fields = reader.next();
    const bool more = fields.has_value();
    if (more) {
      table.rows.push_back(*std::move(fields));
      table.lines.push_back(reader.first_line());
    }
    return more;
  });
  if (table.rows.empty() && !on_bad) refuse_without_rows(path);
  return table;
}

std::vector<std::string> column_names(std::string_view line) {
  try {
    std::vector<std::string> names = split_record(
        line, separator_of(line), [] { return std::optional<std::string_view>(); },
        [](std::string_view what) { fail(ErrorCode::kFormat, "{}", what); });
    check_names(names, "the line");
    return names;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace sluice::data
