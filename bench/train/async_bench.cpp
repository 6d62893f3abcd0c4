#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "bench/machine.h"
#include "bench/output_file.h"
#include "bench/train/on_devices.h"
#include "bench/train/shape_work.h"

namespace sluice::bench::train {
namespace {

constexpr const char* kRow = "{:<16} {:>5} {:>7} {:>12} {:>10} {:>10}\n";

/// How many times as long a rank takes, of "rank=factor".
double factor_of(const std::vector<std::string>& slow, std::int64_t rank, std::int64_t ranks) {
  double own = 1;
  for (const std::string& one : slow) {
    std::int64_t named = -1;
    double factor = 0;
    const std::size_t sign = one.find('=');
    const char* end = one.data() + one.size();
    const bool read =
        sign != std::string::npos &&
        std::from_chars(one.data(), one.data() + sign, named).ptr == one.data() + sign &&
        std::from_chars(one.data() + sign + 1, end, factor).ptr == end;
    SLUICE_CHECK(read && named >= 0 && named < ranks && factor >= 1 && factor <= 1000,
                 "--slow is '{}'; name one of {} ranks, from 0 on, and how many times as long it "
                 "takes, as in 1=3",
                 one, ranks);
    if (named == rank) own = factor;
  }
  return own;
}

/// The measurements of all ranks.
std::vector<AsyncRow> rows_of(const std::string& name, bool slowed, const AsyncResult& own,
                              distributed::Communicator& ranks) {
  std::vector<AsyncRow> rows;
  for (const std::string& told :
       ranks.exchange(fmt::format("{:a} {:a}", own.milliseconds, own.staleness))) {
    AsyncRow row{name, slowed, std::ssize(rows), {}};
    char* end = nullptr;
    row.result.milliseconds = std::strtod(told.c_str(), &end);
    row.result.staleness = std::strtod(end, nullptr);
    rows.push_back(row);
  }
  return rows;
}

std::string to_json(const std::vector<AsyncRow>& rows, const TrainBenchOptions& options,
                    const std::string& device) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AsyncRow& row : rows) {
    nlohmann::ordered_json one;
    one["name"] = row.name;
    one["pass"] = "asynchronous step";
    one["slow"] = row.slowed ? fmt::format("{}", fmt::join(options.slow, " ")) : "";
    one["rank"] = row.rank;
    one["milliseconds"] = row.result.milliseconds;
    one["staleness"] = row.result.staleness;
    add_machine(one, device);
    list.push_back(std::move(one));
  }
  return list.dump(1) + "\n";
}

std::vector<AsyncRow> measure(const TrainBenchOptions& options, const Rank& rank,
                              std::ostream& out) {
  SLUICE_CHECK(rank.ranks != nullptr, "--async is of several devices: name them by --devices");
  if (!options.json.empty()) require_writable(options.json);
  profiling::Session session({}, profiling::print, profiling::Session::Turns::kMany);
  const double factor = factor_of(options.slow, rank.ranks->rank(), rank.count());
  std::vector<AsyncRow> all;
  out << fmt::format(kRow, "shape", "rank", "slowed", "ms a step", "speed", "staleness");
  for (const TrainShape& shape : shapes_of(options, rank)) {
    const auto bench = [&](bool slowed) {
      StepBench steps(work_of(shape, options, rank), 1, options.profile, session);
      const double rest = slowed ? factor - 1 : 0;
      return rows_of(shape.name, slowed, steps.run_async(options.async_seconds, rest), *rank.ranks);
    };
    const std::vector<AsyncRow> free = bench(false);
    std::vector<AsyncRow> rows = free;
    if (!options.slow.empty()) {
      const std::vector<AsyncRow> slowed = bench(true);
      rows.insert(rows.end(), slowed.begin(), slowed.end());
    }
    for (const AsyncRow& row : rows) {
      const double before = free[static_cast<std::size_t>(row.rank)].result.milliseconds;
      out << fmt::format(kRow, row.name, row.rank, row.slowed ? "yes" : "no",
                         fmt::format("{:.3f}", row.result.milliseconds),
                         fmt::format("{:.2f}", before / row.result.milliseconds),
                         fmt::format("{:.1f}", row.result.staleness))
          << std::flush;
      all.push_back(row);
    }
  }
  if (!options.json.empty()) write_file(options.json, to_json(all, options, rank.device));
  return all;
}

}  // namespace

std::vector<AsyncRow> run_async_bench(const TrainBenchOptions& options, std::ostream& out) {
  return measure_on_devices(options, out, measure);
}

}  // namespace sluice::bench::train
