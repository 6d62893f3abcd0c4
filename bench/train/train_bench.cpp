#include "bench/train/train_bench.h"

#include <fmt/format.h>

#include <ostream>

#include "base/check.h"
#include "bench/output_file.h"
#include "bench/statistics.h"
#include "bench/train/on_devices.h"
#include "bench/train/shape_work.h"

namespace sluice::bench::train {
namespace {

constexpr const char* kRow = "{:<16} {:<9} {:<14} {:>10} {:>11} {:>12} {:>10} {:>8}\n";

std::string marked(const StepResult& result) {
  return result.implementation + (result.is_default ? " *" : "");
}

void print(std::ostream& out, const TrainResult& result) {
  out << fmt::format(kRow, result.shape.name, result.shape.dtype, marked(result),
                     fmt::format("{:.3f}", result.milliseconds),
                     fmt::format("{:.0f}", result.pairs_per_second()),
                     fmt::format("{:.0f}", result.tokens_per_second()),
                     mebibytes(result.peak_bytes), fmt::format("{:.3f}", result.loss))
      << std::flush;
}

void print(std::ostream& out, const ConfigResult& result) {
  out << fmt::format(kRow, result.sizes.name, result.dtype, marked(result),
                     fmt::format("{:.3f}", result.step_milliseconds()),
                     fmt::format("{:.0f}", result.examples_per_second()),
                     fmt::format("{:.0f}", result.tokens_per_second()),
                     mebibytes(result.peak_bytes), fmt::format("{:.3f}", result.loss))
      << std::flush;
}

/// Results of all works, plain and captured, each made by `result_of`.
template <typename Result>
class Table {
 public:
  Table(const TrainBenchOptions& options, std::ostream& out, const char* rows)
      : options_(options),
        out_(out),
        rows_(rows),
        session_(options.profile, profiling::print, profiling::Session::Turns::kMany) {
    SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
    if (!options.json.empty()) require_writable(options.json);
  }

  template <typename ResultOf>
  void measure(TrainWork work, ResultOf&& result_of) {
    StepBench bench(std::move(work), options_.repeats, options_.profile, session_);
    if (results_.empty()) {
      out_ << fmt::format(kRow, rows_, "dtype", "*=default", "ms", "pairs/s", "tokens/s",
                          "peak MiB", "loss");
    }
    for (const bool captured : {false, true}) {
      if (captured && !bench.can_capture()) continue;
      results_.push_back(result_of(bench.run(captured)));
      print(out_, results_.back());
      bench.profile(captured);
    }
  }

  std::vector<Result> finish() {
    session_.finish();
    if (!options_.json.empty()) write_file(options_.json, to_json(results_));
    return std::move(results_);
  }

 private:
  const TrainBenchOptions& options_;
  std::ostream& out_;
  const char* rows_;
  profiling::Session session_;
  std::vector<Result> results_;
};

}  // namespace

double TrainResult::pairs_per_second() const {
  return static_cast<double>(shape.batch * ranks) / milliseconds * 1e3;
}

double TrainResult::tokens_per_second() const {
  return static_cast<double>(shape.tokens() * ranks) / milliseconds * 1e3;
}

double ConfigResult::step_milliseconds() const {
  return milliseconds / static_cast<double>(sizes.batches);
}

double ConfigResult::examples_per_second() const {
  return static_cast<double>(sizes.examples) / milliseconds * 1e3;
}

double ConfigResult::tokens_per_second() const {
  return static_cast<double>(sizes.source_tokens + sizes.target_tokens) / milliseconds * 1e3;
}

namespace {

std::vector<TrainResult> measure_shapes(const TrainBenchOptions& options, const Rank& rank,
                                        std::ostream& out) {
  const std::vector<TrainShape> shapes = shapes_of(options, rank);
  Table<TrainResult> table(options, out, "shape");
  for (const TrainShape& shape : shapes) {
    table.measure(work_of(shape, options, rank), [&](StepResult result) {
      TrainResult of_shape{std::move(result), shape};
      of_shape.shape.device = of_shape.device;
      return of_shape;
    });
  }
  return table.finish();
}

std::vector<ConfigResult> measure_configs(const TrainBenchOptions& options, const Rank& rank,
                                          std::ostream& out) {
  const std::string& device = rank.device.empty() ? options.device : rank.device;
  Table<ConfigResult> table(options, out, "configuration");
  for (const std::string& path : options.config.paths) {
    ConfigWork work = read_config_work(options.config, path, device, options.dtype);
    work.work.ranks = rank.ranks;
    work.work.exchange = options.exchange;
    work.work.threads = rank.threads;
    const std::string dtype = work.work.dtype;
    table.measure(std::move(work.work), [&](StepResult result) {
      return ConfigResult{std::move(result), work.sizes, dtype};
    });
  }
  return table.finish();
}

}  // namespace

std::vector<TrainResult> run_train_bench(const TrainBenchOptions& options, std::ostream& out) {
  return measure_on_devices(options, out, measure_shapes);
}

std::vector<ConfigResult> run_config_bench(const TrainBenchOptions& options, std::ostream& out) {
  return measure_on_devices(options, out, measure_configs);
}

}  // namespace sluice::bench::train
