#include "data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"
#include "data/line_reader.h"

namespace sluice::data {
namespace {

using base::fail;

char separator_of(std::string_view first_line) {
  return first_line.find('\t') != std::string_view::npos ? '\t' : ',';
}

/// Cuts records into fields.
class Splitter {
 public:
  /// `more` gives the line in which a quoted field goes on, `where` says where the record begins.
  Splitter(std::function<std::optional<std::string_view>()> more,
           std::function<std::string()> where)
      : more_(std::move(more)), where_(std::move(where)) {}

  void set_separator(char separator) { separator_ = separator; }

  /// The fields of the record that begins with this line.
  std::vector<std::string> split(std::string_view line) const {
    std::vector<std::string> fields;
    std::string rest(line);
    std::size_t at = 0;
    while (true) {
      if (at < rest.size() && rest[at] == '"') {
        fields.push_back(quoted(rest, at));
        if (at < rest.size() && rest[at] != separator_) {
          refuse(
              "text follows the closing quote of field {}; within a quoted field, quotes are "
              "doubled",
              fields.size());
        }
      } else {
        const std::size_t end = std::min(rest.find(separator_, at), rest.size());
        fields.push_back(rest.substr(at, end - at));
        at = end;
      }
      if (at == rest.size()) return fields;
      ++at;  // the separator
    }
  }

  /// The same of a table's first line.
  std::vector<std::string> split_names(std::string_view line) const {
    std::vector<std::string> names = split(line);
    for (auto name = names.begin(); name != names.end(); ++name) {
      if (name->empty()) refuse("a column has no name");
      if (std::find(names.begin(), name, *name) != name) {
        refuse("two columns have the name '{}'", *name);
      }
    }
    return names;
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kFormat, "{}: {}", where_(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  /// The field whose opening quote is at `at`, which moves behind the closing one.
  std::string quoted(std::string& rest, std::size_t& at) const {
    std::string field;
    ++at;
    while (true) {
      const std::size_t quote = rest.find('"', at);
      if (quote == std::string::npos) {
        field.append(rest, at).push_back('\n');
        if (field.size() > LineReader::kMaxLineBytes) refuse("a quoted field is too long");
        const auto line = more_();
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

  std::function<std::optional<std::string_view>()> more_;
  std::function<std::string()> where_;
  char separator_ = ',';
};

class TableReader {
 public:
  explicit TableReader(const std::filesystem::path& path)
      : lines_(path),
        splitter_(
            [this] { return lines_.next(); },
            [this] { return fmt::format("'{}' line {}", lines_.path().string(), first_line_); }) {
    table_.path = path;
  }
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  Table read(const OnBadLine& on_bad) {
    read_names();
    read_lines_of(lines_, on_bad, [this] {
      const auto line = lines_.next();
      if (line && !line->empty()) {
        first_line_ = lines_.line_number();
        add_row(splitter_.split(*line));
      }
      return line.has_value();
    });
    if (table_.rows.empty()) {
      fail(ErrorCode::kFormat,
           "'{}' has no rows; it needs a line with the columns' names, and more",
           lines_.path().string());
    }
    return std::move(table_);
  }

 private:
  void read_names() {
    auto line = lines_.next();
    while (line && line->empty()) line = lines_.next();
    if (!line) return;
    first_line_ = lines_.line_number();
    splitter_.set_separator(separator_of(*line));
    table_.columns = splitter_.split_names(*line);
  }

  void add_row(std::vector<std::string> fields) {
    if (fields.size() != table_.columns.size()) {
      splitter_.refuse("it has {} field(s), but the first line names {} column(s)", fields.size(),
                       table_.columns.size());
    }
    table_.rows.push_back(std::move(fields));
    table_.lines.push_back(first_line_);
  }

  LineReader lines_;
  Splitter splitter_;
  Table table_;
  std::int64_t first_line_ = 0;  ///< of the record that is being read
};

}  // namespace

std::string Table::where(std::size_t row) const {
  return fmt::format("'{}' line {}", path.string(), lines[row]);
}

std::size_t Table::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    fail(ErrorCode::kNotFound, "'{}' has no column '{}'; its columns are {}", path.string(), name,
         fmt::join(columns, ", "));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

Table read_table(const std::filesystem::path& path, const OnBadLine& on_bad) {
  return TableReader(path).read(on_bad);
}

std::vector<std::string> column_names(std::string_view line) {
  Splitter splitter([] { return std::nullopt; }, [] { return std::string("the line"); });
  splitter.set_separator(separator_of(line));
  try {
    return splitter.split_names(line);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace sluice::data
