#include "data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "data/line_reader.h"

namespace sluice::data {
namespace {

using base::fail;

class TableReader {
 public:
  explicit TableReader(const std::filesystem::path& path) : lines_(path) { table_.path = path; }

  Table read(const OnBadLine& on_bad) {
    read_names();
    read_lines_of(lines_, on_bad, [this] {
      const auto line = lines_.next();
      if (line && !line->empty()) {
        first_line_ = lines_.line_number();
        add_row(split(*line));
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
    separator_ = line->find('\t') != std::string_view::npos ? '\t' : ',';
    table_.columns = split(*line);
    check_names();
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kFormat, "'{}' line {}: {}", lines_.path().string(), first_line_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void check_names() const {
    for (auto name = table_.columns.begin(); name != table_.columns.end(); ++name) {
      if (name->empty()) refuse("a column has no name");
      if (std::find(table_.columns.begin(), name, *name) != name) {
        refuse("two columns have the name '{}'", *name);
      }
    }
  }

  void add_row(std::vector<std::string> fields) {
    if (fields.size() != table_.columns.size()) {
      refuse("it has {} field(s), but the first line names {} column(s)", fields.size(),
             table_.columns.size());
    }
    table_.rows.push_back(std::move(fields));
    table_.lines.push_back(first_line_);
  }

  /// The fields of a record, which goes on in further lines where a quoted field does.
  std::vector<std::string> split(std::string_view line) {
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

  /// The field whose opening quote is at `at`, which moves behind the closing one.
  std::string quoted(std::string& rest, std::size_t& at) {
    std::string field;
    ++at;
    while (true) {
      const std::size_t quote = rest.find('"', at);
      if (quote == std::string::npos) {
        field.append(rest, at).push_back('\n');
        if (field.size() > LineReader::kMaxLineBytes) refuse("a quoted field is too long");
        const auto more = lines_.next();
        if (!more) refuse("a quote is never closed");
        rest = *more;
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

  LineReader lines_;
  Table table_;
  char separator_ = ',';
  std::int64_t first_line_ = 0;
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

}  // namespace sluice::data
