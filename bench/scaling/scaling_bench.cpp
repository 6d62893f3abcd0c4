#include "bench/scaling/scaling_bench.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.h"
#include "bench/output_file.h"
#include "data/child_process.h"
#include "io/file.h"
#include "training/ranks/devices.h"

namespace sluice::bench::scaling {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 26;
constexpr const char* kRow = "{:<16} {:>7} {:>8} {:>9} {:>10} {:>9} {:>10} {:>11} {:>8} {:>9}\n";
constexpr const char* kForecastRow = "{:<16} {:>7} {:>5} {:>10} {:>10} {:>8} {:>9}\n";

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// Runs a command of the shell to its end. Throws Error if it fails.
void run(const std::string& command) {
  data::ChildProcess process(command + " > /dev/null");
  process.close_input();
  std::array<char, 256> dropped{};
  while (true) {
    if (!process.ready(false, std::chrono::hours(1))) continue;
    const auto count = process.read(dropped);
    if (count && *count == 0) break;
  }
  const std::string end = process.wait();
  if (process.exit_code() == 0) return;
  base::fail(ErrorCode::kDevice, "a measurement failed ({}); its own message stands above: {}", end,
             command);
}

/// A file that goes with this.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("sluice-scaling-{}.json", getpid())) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_.native(); }

 private:
  std::filesystem::path path_;
};

/// Measures by `sluice bench train` and returns its rows of what sluice train would run.
class Measurements {
 public:
  explicit Measurements(const ScalingOptions& options) : options_(options) {}

  std::vector<ScalingRow> of_shapes(std::int64_t count, bool whole_batch) {
    return of("--shapes " + quoted(options_.shapes) + (whole_batch ? " --whole-batch" : ""), count);
  }
  std::vector<ScalingRow> of_config(const std::string& path, std::int64_t count) {
    return of("--config " + quoted(path), count);
  }
  const ordered_json& all() const { return all_; }

 private:
  std::vector<ScalingRow> of(const std::string& what, std::int64_t count) {
    const TemporaryFile results;
    const std::vector<std::string> first(options_.devices.begin(),
                                         options_.devices.begin() + count);
    const std::string devices = fmt::format("{}", fmt::join(first, ","));
    std::string command =
        fmt::format("{} bench train {} --repeats {} --json {}", quoted(options_.program), what,
                    options_.repeats, quoted(results.path()));
    command += (count == 1 ? " --device " : " --devices ") + quoted(devices);
    if (!options_.dtype.empty()) command += " --dtype " + quoted(options_.dtype);
    if (count > 1 && options_.bfloat16_exchange) command += " --bfloat16-exchange";
    if (count > 1 && options_.shard) command += " --shard";
    run(command);
    std::vector<ScalingRow> rows;
    for (ordered_json& row : ordered_json::parse(io::read_file(results.path(), kMostBytes))) {
      if (row.at("default") == true) rows.push_back(row_of(row));
      all_.push_back(std::move(row));
    }
    return rows;
  }

  static ScalingRow row_of(const ordered_json& row) {
    const bool is_shape = row.contains("pairs_per_second");
    ScalingRow result;
    result.name = row.at("name");
    result.ranks = row.value("ranks", 1);
    result.batch = is_shape ? row.at("batch").get<std::int64_t>() * result.ranks : 0;
    result.milliseconds = row.at("milliseconds");
    result.examples_per_second = row.at(is_shape ? "pairs_per_second" : "examples_per_second");
    result.peak_mebibytes = row.at("peak_bytes").get<double>() / (1 << 20);
    result.parameters = row.at("parameters");
    result.apart = row.value("apart_milliseconds", 0.0);
    result.all_reduce = row.value("all_reduce_milliseconds", 0.0);
    return result;
  }

  const ScalingOptions& options_;
  ordered_json all_ = ordered_json::array();
};

/// "38 min" or "2.1 h".
std::string time_of(double seconds) {
  if (seconds < 600) return fmt::format("{:.1f} s", seconds);
  return seconds < 2 * 3600 ? fmt::format("{:.0f} min", seconds / 60)
                            : fmt::format("{:.1f} h", seconds / 3600);
}

void print(std::ostream& out, const ScalingRow& row, const ScalingRow& one, std::int64_t epoch) {
  const bool alone = row.ranks == 1;
  out << fmt::format(kRow, row.name, row.ranks, row.batch == 0 ? "" : std::to_string(row.batch),
                     fmt::format("{:.0f}", row.peak_mebibytes),
                     fmt::format("{:.3f}", row.milliseconds),
                     alone ? "" : fmt::format("{:.1f} %", 100 * (1 - row.apart / row.milliseconds)),
                     alone ? "" : fmt::format("{:.3f}", row.all_reduce),
                     fmt::format("{:.0f}", row.examples_per_second),
                     fmt::format("{:.2f}", row.examples_per_second / one.examples_per_second),
                     time_of(static_cast<double>(epoch) / row.examples_per_second))
      << std::flush;
}

/// Rows of one name with one batch on each device.
void print_forecast(std::ostream& out, const std::vector<ScalingRow>& rows,
                    const ScalingOptions& options) {
  const auto from = std::ranges::find_if(rows, [](const auto& row) { return row.ranks > 1; });
  if (from == rows.end()) return;
  const Measured measured{from->ranks, from->apart, from->milliseconds, from->all_reduce,
                          from->parameters * (options.bfloat16_exchange ? 2 : 4)};
  const double examples = from->examples_per_second * from->milliseconds / 1e3 /
                          static_cast<double>(from->ranks);  // of a device in a step
  const auto line = [&](std::int64_t ranks, Algorithm algorithm, double was) {
    const double step = step_forecast(measured, options.network, ranks, algorithm);
    const double speed = examples * static_cast<double>(ranks) / step * 1e3;
    out << fmt::format(kForecastRow, from->name, ranks,
                       algorithm == Algorithm::kRing ? "ring" : "tree", fmt::format("{:.3f}", step),
                       was > 0 ? fmt::format("{:.3f}", was) : "",
                       fmt::format("{:.1f}", speed / rows.front().examples_per_second),
                       time_of(static_cast<double>(options.epoch) / speed));
  };
  for (auto row = from + 1; row < rows.end(); ++row) {
    line(row->ranks, Algorithm::kRing, row->milliseconds);
  }
  for (const std::int64_t ranks : options.forecasts) {
    if (std::ranges::any_of(rows, [&](const auto& row) { return row.ranks == ranks; })) continue;
    line(ranks, Algorithm::kRing, 0);
    if (ranks > options.network.host_devices) line(ranks, Algorithm::kTree, 0);
  }
}

std::vector<std::int64_t> counts_of(const ScalingOptions& options) {
  const std::int64_t most = std::ssize(options.devices);
  std::vector<std::int64_t> counts = options.counts;
  for (std::int64_t count = 1; options.counts.empty() && count <= most; count *= 2) {
    counts.push_back(count);
  }
  std::ranges::sort(counts);
  SLUICE_CHECK(counts.front() >= 1 && counts.back() <= most,
               "--counts names {} devices, but --devices names {}",
               counts.front() < 1 ? counts.front() : counts.back(), most);
  if (counts.front() != 1) counts.insert(counts.begin(), 1);  // speed-ups are over one
  return counts;
}

}  // namespace

std::vector<ScalingRow> run_scaling_bench(const ScalingOptions& asked, std::ostream& out) {
  ScalingOptions options = asked;
  training::TrainConfig config;
  config.devices = fmt::format("{}", fmt::join(options.devices, ","));
  options.devices = training::devices_of(config);
  const std::vector<std::int64_t> counts = counts_of(options);
  if (!options.json.empty()) require_writable(options.json);
  Measurements measurements(options);
  std::vector<ScalingRow> all;
  std::map<std::string, std::vector<ScalingRow>> series;  // the batch of a device is the same
  out << fmt::format(kRow, "name", "devices", "batch", "peak MiB", "ms", "exchange", "all-reduce",
                     "examples/s", "speed-up", "epoch");
  const auto add = [&](const std::vector<ScalingRow>& rows, bool in_series) {
    for (const ScalingRow& row : rows) {
      if (in_series) series[row.name].push_back(row);
      print(out, row, series.at(row.name).front(), options.epoch);
      all.push_back(row);
    }
  };
  for (const std::int64_t count : counts) {
    if (!options.shapes.empty()) add(measurements.of_shapes(count, false), true);
    for (const std::string& path : options.configs)
      add(measurements.of_config(path, count), count == 1);
  }
  for (const std::int64_t count : counts) {
    if (count > 1 && !options.shapes.empty()) add(measurements.of_shapes(count, true), false);
  }
  out << "\n"
      << fmt::format(kForecastRow, "forecast", "devices", "", "ms", "measured", "speed-up",
                     "epoch");
  for (const auto& [name, rows] : series) print_forecast(out, rows, options);
  if (!options.json.empty()) write_file(options.json, measurements.all().dump(1) + "\n");
  return all;
}

}  // namespace sluice::bench::scaling
