#include "bench/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/html.h"
#include "bench/report/bar_plot.h"
#include "bench/report/text_report.h"

namespace sluice::bench::report {
namespace {

using base::escape_html;

constexpr std::string_view kStyle = R"(
.fastest { font-weight: 700; } .peer { color: var(--faint); } .low { color: var(--bad); font-weight: 700; }
svg .one { stroke: var(--text); }
svg .faster { fill: #1a7f5a; } svg .slower { fill: var(--bad); } svg .default { opacity: .5; }
)";

constexpr std::string_view kIntroduction =
    R"(<p>Ratios are time of the best peer / own time: above 1 is faster. The dark bar is the fastest own
implementation, the light one below what is chosen by default where that is another. Times are
milliseconds.</p>
)";

std::string ratio_cell(const std::optional<double>& ratio) {
  if (!ratio) return "<td>-</td>";
  return fmt::format("<td{}>{:.2f}</td>", *ratio < 1 ? " class=\"low\"" : "", *ratio);
}

std::string mean_row(const std::string& label, const std::optional<Summary>& summary) {
  if (!summary) return "";
  return fmt::format("<tr><td>{}</td><td>{}</td>{}{}{}{}</tr>\n", escape_html(label), summary->rows,
                     ratio_cell(summary->default_mean), ratio_cell(summary->default_lowest),
                     ratio_cell(summary->best_mean), ratio_cell(summary->best_lowest));
}

std::string means(const std::vector<Group>& groups) {
  std::string rows;
  for (const Group& group : groups) {
    rows += mean_row(group.title(), summarize(group));
  }
  if (rows.empty()) {
    return "<p>No workload has both a peer and an own default: there is nothing to compare.</p>\n";
  }
  if (groups.size() > 1) rows += mean_row("all", summarize(groups));
  return "<div class=\"scroll\"><table>\n<tr><th>geometric mean</th><th>workloads</th>"
         "<th>default</th><th>lowest</th><th>best own</th><th>lowest</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string plot(const Group& group) {
  std::vector<Bars> bars;
  for (const Row& row : group.rows) {
    const auto best = row.ratio_of(row.best_own());
    if (!best) continue;
    bars.push_back({row.workload.name,
                    fmt::format("{}: {} against {}", row.workload.sizes,
                                row.best_own()->implementation, row.best_peer()->implementation),
                    row.ratio_of(row.default_own()), best});
  }
  return bars.empty() ? "" : bar_plot(bars);
}

// Own ones first, both in the order of first appearance.
std::vector<std::pair<std::string, bool>> columns_of(const Group& group) {
  std::vector<std::pair<std::string, bool>> columns;
  for (const bool peer : {false, true}) {
    for (const Row& row : group.rows) {
      for (const Measurement& m : row.measured) {
        const std::pair column(m.implementation, m.peer);
        const bool known = std::ranges::find(columns, column) != columns.end();
        if (m.peer == peer && !known) columns.push_back(column);
      }
    }
  }
  return columns;
}

std::string table_row(const Row& row, const std::vector<std::pair<std::string, bool>>& columns) {
  std::string text =
      fmt::format("<tr><td>{}</td><td class=\"text\">{}</td>{}{}", escape_html(row.workload.name),
                  escape_html(row.workload.sizes), ratio_cell(row.ratio_of(row.default_own())),
                  ratio_cell(row.ratio_of(row.best_own())));
  for (const auto& [name, peer] : columns) {
    const auto found = std::ranges::find_if(row.measured, [&](const Measurement& m) {
      return m.implementation == name && m.peer == peer;
    });
    if (found == row.measured.end()) {
      text += "<td></td>";
      continue;
    }
    const bool fastest = &*found == row.best_own() || &*found == row.best_peer();
    text += fmt::format("<td class=\"{}{}\">{}{}</td>", peer ? "peer" : "own",
                        fastest ? " fastest" : "", format_milliseconds(found->milliseconds),
                        found->is_default ? "*" : "");
  }
  return text + "</tr>\n";
}

std::string table(const Group& group) {
  const auto columns = columns_of(group);
  std::string text =
      "<div class=\"scroll\"><table>\n<tr><th>workload</th><th>sizes</th><th>default</th>"
      "<th>best own</th>";
  for (const auto& [name, peer] : columns) {
    text += fmt::format("<th{}>{}</th>", peer ? " class=\"peer\"" : "", escape_html(name));
  }
  text += "</tr>\n";
  for (const Row& row : group.rows) text += table_row(row, columns);
  return text + "</table></div>\n";
}

std::string sources(const std::vector<Group>& groups) {
  std::set<std::string> files;
  for (const Group& group : groups) {
    for (const Row& row : group.rows) {
      for (const Measurement& m : row.measured) {
        files.insert(m.commit.empty() ? m.file : fmt::format("{} (commit {})", m.file, m.commit));
      }
    }
  }
  return fmt::format(
      "<p>From {}. * marks the default, bold the fastest own one and the fastest "
      "peer; grey columns are peers.</p>\n",
      escape_html(fmt::format("{}", fmt::join(files, ", "))));
}

}  // namespace

std::string html_page(const std::vector<Group>& groups) {
  std::string text{kIntroduction};
  text += sources(groups) + means(groups);
  for (const Group& group : groups) {
    text += fmt::format("<h2>{}</h2>\n", escape_html(group.title()));
    text += plot(group) + table(group);
  }
  return base::html_page("Sluice against the best peer", kStyle, text);
}

}  // namespace sluice::bench::report
