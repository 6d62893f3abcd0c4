#include "bench/report/page_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/check.h"
#include "base/counted.h"
#include "bench/report/bar_plot.h"
#include "bench/report/comparison.h"
#include "bench/report/text_report.h"

namespace sluice::bench::report {
namespace {

constexpr std::string_view kBegin = "<!-- table ", kPicture = "<!-- picture ",
                           kEndOfComment = " -->", kEnd = "<!-- end of table -->";
constexpr std::string_view kForward = "forward", kBackward = "forward+backward";

struct Request {
  std::string kind, file;
  std::map<std::string, std::set<std::string>> wanted;  ///< values by key

  bool takes(const Workload& workload) const {
    const std::map<std::string, std::string> values{{"cell", workload.cell},
                                                    {"dtype", workload.dtype},
                                                    {"pass", workload.pass},
                                                    {"name", workload.name}};
    return std::ranges::all_of(
        wanted, [&](const auto& want) { return want.second.contains(values.at(want.first)); });
  }
};

std::set<std::string> split(const std::string& list) {
  std::set<std::string> values;
  std::istringstream stream(list);
  for (std::string value; std::getline(stream, value, ',');) values.insert(value);
  return values;
}

/// "KIND FILE KEY=VALUES ..."
Request parse_request(std::string_view text) {
  std::istringstream words{std::string(text)};
  Request request;
  words >> request.kind >> request.file;
  SLUICE_CHECK(!request.file.empty(), "a table names its kind and a results file");
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    SLUICE_CHECK(
        equals != std::string::npos && split("cell,dtype,pass,name").contains(key),
        "'{}' is none of cell=, dtype=, pass= and name= with values and commas between them", word);
    request.wanted[key] = split(word.substr(equals + 1));
  }
  return request;
}

bool has_16_bits(const std::string& dtype) { return dtype == "bfloat16" || dtype == "float16"; }

/// All rows of a table, and for each the peer that it is held against.
class Rows {
 public:
  explicit Rows(const std::vector<Measurement>& measurements) {
    for (Group& group : compare(measurements)) {
      for (Row& row : group.rows) rows_.push_back(std::move(row));
    }
  }
  const std::vector<Row>& all() const { return rows_; }

  const Measurement* own(const Row& row) const {
    return row.default_own() != nullptr ? row.default_own() : row.best_own();
  }
  /// In either 16-bit type, where ours has 16 bits.
  const Measurement* peer(const Row& row) const {
    const Measurement* best = row.best_peer();
    if (!has_16_bits(row.workload.dtype)) return best;
    for (const Row& other : rows_) {
      if (!has_16_bits(other.workload.dtype)) continue;
      Workload same = other.workload;
      same.dtype = row.workload.dtype;
      if (same != row.workload) continue;
      const Measurement* found = other.best_peer();
      if (found != nullptr && (best == nullptr || found->milliseconds < best->milliseconds)) {
        best = found;
      }
    }
    return best;
  }
  std::optional<double> ratio(const Row& row) const {
    const Measurement *ours = own(row), *theirs = peer(row);
    if (ours == nullptr || theirs == nullptr) return std::nullopt;
    if (theirs == row.best_peer()) return row.ratio_of(ours);
    return theirs->milliseconds / ours->milliseconds;
  }

 private:
  std::vector<Row> rows_;
};

/// Geometric mean, lowest and how many.
struct Mean {
  double logs = 0, lowest = 0;
  std::size_t count = 0;
  std::string lowest_of;

  void add(double ratio, const std::string& name) {
    if (count == 0 || ratio < lowest) lowest = ratio, lowest_of = name;
    logs += std::log(ratio);
    ++count;
  }
  double value() const { return std::exp(logs / static_cast<double>(count)); }
};

/// In the order of their first appearance.
template <typename Value>
class Ordered {
 public:
  Value& operator[](const std::string& key) {
    const auto [place, is_new] = places_.try_emplace(key, entries_.size());
    if (is_new) entries_.emplace_back(key, Value());
    return entries_[place->second].second;
  }
  const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, Value>> entries_;
};

std::string table_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string header(const std::vector<std::string>& cells) {
  std::string text = table_row(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
  return text + "\n";
}

std::string two(const std::optional<double>& forward, const std::optional<double>& backward) {
  if (!forward && !backward) return "";
  if (!backward) return fmt::format("{:.2f}", *forward);
  return fmt::format("{} / {:.2f}", forward ? fmt::format("{:.2f}", *forward) : "-", *backward);
}

std::string ratios_table(const Rows& rows) {
  using ByPass = std::map<std::string, std::optional<double>>;
  Ordered<std::map<std::string, ByPass>> workloads;
  Ordered<std::map<std::string, Mean>> dtypes;
  std::set<std::string> cells_of_table;
  for (const Row& row : rows.all()) cells_of_table.insert(row.workload.cell);
  for (const Row& row : rows.all()) {
    const std::optional<double> ratio = rows.ratio(row);
    if (!ratio) continue;
    const Workload& w = row.workload;
    const std::string cell = cells_of_table.size() > 1 ? w.cell + " " : "";
    workloads[fmt::format("{}{} ({})", cell, w.name, w.sizes)][w.dtype][w.pass] = ratio;
    dtypes[w.dtype][w.pass].add(*ratio, w.name);
  }
  std::vector<std::string> head{"workload"}, means{"geometric mean"};
  for (const auto& [dtype, by_pass] : dtypes.entries()) {
    head.push_back(dtype);
    std::map<std::string, std::optional<double>> values;
    for (const auto& [pass, mean] : by_pass) values[pass] = mean.value();
    means.push_back(two(values[std::string(kForward)], values[std::string(kBackward)]));
  }
  std::string text = header(head);
  for (const auto& [workload, of_dtype] : workloads.entries()) {
    std::vector<std::string> cells{workload};
    for (const auto& [dtype, by_pass] : dtypes.entries()) {
      const auto found = of_dtype.find(dtype);
      ByPass none;
      ByPass values = found == of_dtype.end() ? none : found->second;
      cells.push_back(two(values[std::string(kForward)], values[std::string(kBackward)]));
    }
    text += table_row(cells);
  }
  return text + table_row(means);
}

std::string mean_cells(const Mean& mean) {
  return fmt::format("{} | {:.2f} | {:.2f} ({})", mean.count, mean.value(), mean.lowest,
                     mean.lowest_of);
}

std::string means_table(const Rows& rows) {
  struct Entry {
    Mean mean;
    std::set<std::string> peers;
  };
  Ordered<Entry> entries;
  for (const Row& row : rows.all()) {
    const std::optional<double> ratio = rows.ratio(row);
    if (!ratio) continue;
    const Workload& w = row.workload;
    Entry& entry = entries[fmt::format("{} {} | {}", w.cell, w.dtype, w.pass)];
    entry.mean.add(*ratio, w.name);
    for (const Measurement& measured : row.measured) {
      if (measured.peer) entry.peers.insert(measured.implementation);
    }
  }
  std::string text = header({"layer", "pass", "shapes", "geometric mean", "lowest", "peers"});
  for (const auto& [name, entry] : entries.entries()) {
    text += fmt::format("| {} | {} | {} |\n", name, mean_cells(entry.mean),
                        fmt::join(entry.peers, ", "));
  }
  return text;
}

std::string peers_table(const Rows& rows) {
  Ordered<Mean> entries;
  for (const Row& row : rows.all()) {
    const Measurement* own = rows.own(row);
    const Workload& w = row.workload;
    for (const Measurement& measured : row.measured) {
      if (!measured.peer || own == nullptr) continue;
      entries[fmt::format("{} | {} {} | {}", measured.implementation, w.cell, w.dtype, w.pass)].add(
          measured.milliseconds / own->milliseconds, fmt::format("{}, {}", w.name, w.sizes));
    }
  }
  std::string text = header({"peer", "what", "pass", "shapes", "geometric mean", "lowest"});
  for (const auto& [name, mean] : entries.entries()) {
    text += fmt::format("| {} | {} |\n", name, mean_cells(mean));
  }
  return text;
}

std::string memory(const Measurement& measured) {
  constexpr double kMiB = 1 << 20;
  return measured.peak_bytes ? fmt::format("{:.0f}", *measured.peak_bytes / kMiB) : "-";
}

std::string times_table(const Rows& rows) {
  std::string text = header({"workload", "dtype", "ms", "best peer", "its ms", "its time / ours",
                             "peak MiB", "the peer's"});
  for (const Row& row : rows.all()) {
    const Measurement *own = row.best_own(), *peer = row.best_peer();
    if (own == nullptr) continue;
    const Workload& w = row.workload;
    std::vector<std::string> cells{w.name, w.dtype, format_milliseconds(own->milliseconds)};
    if (peer != nullptr) {
      cells.insert(cells.end(), {peer->implementation, format_milliseconds(peer->milliseconds),
                                 fmt::format("{:.2f}", peer->milliseconds / own->milliseconds),
                                 memory(*own), memory(*peer)});
    } else {
      cells.insert(cells.end(), {"-", "-", "-", memory(*own), "-"});
    }
    text += table_row(cells);
  }
  return text;
}

/// The line below a table: machine, software, commits and file of its measurements.
std::string origin_line(const std::vector<Measurement>& measurements, const std::string& file) {
  std::set<std::string> machines, software, commits;
  for (const Measurement& measured : measurements) {
    const Workload& w = measured.workload;
    machines.insert(w.machine.empty() ? w.device : w.machine);
    if (!measured.software.empty()) software.insert(measured.software);
    if (!measured.commit.empty()) commits.insert(measured.commit.substr(0, 7));
  }
  SLUICE_CHECK(machines.size() == 1, "{} has results of {}; a table is of one", file,
               fmt::join(machines, " and "));
  std::vector<std::string> parts{*machines.begin()};
  parts.insert(parts.end(), software.begin(), software.end());
  std::string of_commits;
  if (!commits.empty()) {
    of_commits = fmt::format("{} {}. ", commits.size() == 1 ? "Commit" : "Commits",
                             fmt::join(commits, ", "));
  }
  return fmt::format("\n{}. {}From `{}`.\n", fmt::join(parts, "; "), of_commits, file);
}

/// The words of a line's comment, without the one that begins it.
std::string_view words_of(std::string_view line, std::string_view begin) {
  line.remove_prefix(begin.size());
  SLUICE_CHECK(line.ends_with(kEndOfComment), "the line doesn't end in '{}'", kEndOfComment);
  line.remove_suffix(kEndOfComment.size());
  return line;
}

using Read = std::function<std::vector<Measurement>(const std::string&)>;

/// The one ratio that the request selects. `measurements` are all results of the file, because
/// 16-bit peers of the other type count too.
std::string ratio_of(const Request& request, const std::vector<Measurement>& measurements) {
  const Rows rows(measurements);
  std::vector<double> ratios;
  for (const Row& row : rows.all()) {
    const std::optional<double> ratio = rows.ratio(row);
    if (ratio && request.takes(row.workload)) ratios.push_back(*ratio);
  }
  SLUICE_CHECK(ratios.size() == 1, "{} has {} such ratios; name one", request.file, ratios.size());
  return fmt::format("{:.1f}", ratios.front());
}

/// The line with its ratios written again.
std::string write_ratios(const std::string& line, const Read& read) {
  constexpr std::string_view kRatio = "<!-- ratio ", kEndOfRatio = "<!-- end -->";
  std::string written;
  std::size_t at = 0;
  for (std::size_t begin; (begin = line.find(kRatio, at)) != std::string::npos;) {
    const std::size_t text = line.find(kEndOfComment, begin);
    const std::size_t end = line.find(kEndOfRatio, begin);
    SLUICE_CHECK(text != std::string::npos && end != std::string::npos && text < end,
                 "a ratio ends in '{}', in its line", kEndOfRatio);
    const std::size_t number = text + kEndOfComment.size();
    const std::size_t words = begin + kRatio.size();
    const Request request = parse_request("ratio " + line.substr(words, text - words));
    written += line.substr(at, number - at) + ratio_of(request, read(request.file));
    at = end;
  }
  return written + line.substr(at);
}

std::vector<Measurement> wanted_of(const Request& request, const Read& read) {
  std::vector<Measurement> measurements = read(request.file);
  std::erase_if(measurements, [&](const Measurement& m) { return !request.takes(m.workload); });
  SLUICE_CHECK(!measurements.empty(), "{} has no such results", request.file);
  return measurements;
}

std::string picture_of(const Request& request, const Read& read) {
  const Rows rows(wanted_of(request, read));
  Ordered<TitledPlot> plots;
  for (const Row& row : rows.all()) {
    const std::optional<double> ratio = rows.ratio(row);
    if (!ratio) continue;
    const Workload& w = row.workload;
    std::string cell = w.cell;
    std::ranges::transform(cell, cell.begin(), [](unsigned char c) { return std::toupper(c); });
    const std::string title = fmt::format(
        "{} {}, {}", cell, w.pass == kForward ? w.pass : "forward and backward", w.dtype);
    TitledPlot& plot = plots[title];
    plot.title = title;
    plot.bars.push_back({w.name,
                         fmt::format("{}: {} against {}", w.sizes, rows.own(row)->implementation,
                                     rows.peer(row)->implementation),
                         std::nullopt, ratio});
  }
  std::vector<TitledPlot> all;
  for (const auto& [title, plot] : plots.entries()) all.push_back(plot);
  SLUICE_CHECK(!all.empty(), "{} has no peer of such results", request.file);
  return picture(all);
}

std::string table_of(const Request& request, const Read& read) {
  const std::vector<Measurement> measurements = wanted_of(request, read);
  const std::map<std::string, std::string (*)(const Rows&)> kinds{{"ratios", ratios_table},
                                                                  {"means", means_table},
                                                                  {"peers", peers_table},
                                                                  {"times", times_table}};
  const auto kind = kinds.find(request.kind);
  SLUICE_CHECK(kind != kinds.end(), "'{}' is no kind of table; use ratios, means, peers or times",
               request.kind);
  return "\n" + kind->second(Rows(measurements)) + origin_line(measurements, request.file) + "\n";
}

}  // namespace

WrittenPage write_tables(std::string_view page, const std::string& origin, const Read& read) {
  std::istringstream lines{std::string(page)};
  WrittenPage result;
  std::string& written = result.text;
  bool in_table = false;
  std::size_t number = 0, begun = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto placed = [&](const auto& action) {
      try {
        return action();
      } catch (const Error& error) {
        base::fail(error.code(), "{}:{}: {}", origin, number, error.what());
      }
    };
    if (line.starts_with(kBegin)) {
      SLUICE_CHECK(!in_table, "{}:{}: the table of line {} has no '{}'", origin, number, begun,
                   kEnd);
      in_table = true;
      begun = number;
      written += line + "\n" +
                 placed([&] { return table_of(parse_request(words_of(line, kBegin)), read); });
    } else if (line == kEnd) {
      SLUICE_CHECK(in_table, "{}:{}: no table has begun that could end", origin, number);
      in_table = false;
      written += line + "\n";
    } else if (!in_table && line.starts_with(kPicture)) {
      placed([&] {
        const std::string_view words = words_of(line, kPicture);
        const std::size_t end = std::min(words.find(' '), words.size());
        result.pictures[std::string(words.substr(0, end))] =
            picture_of(parse_request(fmt::format("picture{}", words.substr(end))), read);
      });
      written += line + "\n";
    } else if (!in_table) {
      written += placed([&] { return write_ratios(line, read); }) + "\n";
    }
  }
  SLUICE_CHECK(!in_table, "{}:{}: the table has no '{}'", origin, begun, kEnd);
  return result;
}

}  // namespace sluice::bench::report
