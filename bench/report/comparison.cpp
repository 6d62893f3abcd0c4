#include "bench/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"

namespace sluice::bench::report {
namespace {

// `measured` is sorted, so the first is the fastest.
template <typename Predicate>
const Measurement* first(const std::vector<Measurement>& measured, Predicate predicate) {
  const auto found = std::ranges::find_if(measured, predicate);
  return found == measured.end() ? nullptr : &*found;
}

void add(Row& row, const Measurement& measurement) {
  const Workload& workload = row.workload;
  for (const Measurement& other : row.measured) {
    if (other.implementation != measurement.implementation) continue;
    base::fail(ErrorCode::kInvalidArgument,
               "{} and {} both hold {} of {} ({}, {}, {}); give only one of them", other.file,
               measurement.file, measurement.implementation, workload.name, workload.sizes,
               workload.dtype, workload.pass);
  }
  row.measured.push_back(measurement);
}

}  // namespace

const Measurement* Row::best_peer() const {
  return first(measured, [](const Measurement& m) { return m.peer; });
}

const Measurement* Row::best_own() const {
  return first(measured, [](const Measurement& m) { return !m.peer; });
}

const Measurement* Row::default_own() const {
  return first(measured, [](const Measurement& m) { return !m.peer && m.is_default; });
}

std::optional<double> Row::ratio_of(const Measurement* own) const {
  const Measurement* peer = best_peer();
  if (own == nullptr || peer == nullptr) return std::nullopt;
  if (own->speedup_over_peer && own->turns == peer->turns) return own->speedup_over_peer;
  return peer->milliseconds / own->milliseconds;
}

std::string Group::title() const {
  return fmt::format("{} {} {} on {}{}{}", cell, dtype, pass, device, machine.empty() ? "" : ": ",
                     machine);
}

std::vector<Group> compare(const std::vector<Measurement>& measurements) {
  std::vector<Row> rows;
  std::map<Workload, std::size_t> places;
  for (const Measurement& measurement : measurements) {
    const auto [place, is_new] = places.try_emplace(measurement.workload, rows.size());
    if (is_new) rows.push_back({measurement.workload, {}});
    add(rows[place->second], measurement);
  }
  std::vector<Group> groups;
  for (Row& row : rows) {
    std::ranges::stable_sort(row.measured, {}, &Measurement::milliseconds);
    const Workload& w = row.workload;
    auto group = std::ranges::find_if(groups, [&](const Group& g) {
      return g.device == w.device && g.machine == w.machine && g.cell == w.cell &&
             g.dtype == w.dtype && g.pass == w.pass;
    });
    if (group == groups.end()) {
      groups.push_back({w.device, w.machine, w.cell, w.dtype, w.pass, {}});
      group = groups.end() - 1;
    }
    group->rows.push_back(std::move(row));
  }
  return groups;
}

std::optional<Summary> summarize(const std::vector<const Row*>& rows) {
  Summary summary;
  summary.default_lowest = summary.best_lowest = std::numeric_limits<double>::infinity();
  double default_logs = 0, best_logs = 0;
  for (const Row* row : rows) {
    const auto by_default = row->ratio_of(row->default_own());
    const auto best = row->ratio_of(row->best_own());
    if (!by_default || !best) continue;
    ++summary.rows;
    default_logs += std::log(*by_default);
    best_logs += std::log(*best);
    summary.default_lowest = std::min(summary.default_lowest, *by_default);
    summary.best_lowest = std::min(summary.best_lowest, *best);
  }
  if (summary.rows == 0) return std::nullopt;
  summary.default_mean = std::exp(default_logs / static_cast<double>(summary.rows));
  summary.best_mean = std::exp(best_logs / static_cast<double>(summary.rows));
  return summary;
}

std::optional<Summary> summarize(const Group& group) {
  std::vector<const Row*> rows;
  for (const Row& row : group.rows) rows.push_back(&row);
  return summarize(rows);
}

std::optional<Summary> summarize(const std::vector<Group>& groups) {
  std::vector<const Row*> rows;
  for (const Group& group : groups) {
    for (const Row& row : group.rows) rows.push_back(&row);
  }
  return summarize(rows);
}

}  // namespace sluice::bench::report
