#include "bench/train/train_bench.h"

#include <fmt/ranges.h>

#include <ostream>
#include <sstream>

#include "base/check.h"
#include "bench/output_file.h"
#include "bench/statistics.h"
#include "bench/train/token_batches.h"
#include "distributed/nccl_part.h"
#include "distributed/process_ranks.h"
#include "models/seq2seq.h"
#include "training/devices.h"

namespace sluice::bench::train {
namespace {

constexpr const char* kRow = "{:<16} {:<9} {:<14} {:>10} {:>11} {:>12} {:>10} {:>8}\n";

TrainWork work_of(const TrainShape& shape, distributed::Communicator* ranks,
                  const training::ExchangeOptions& exchange) {
  TrainWork work{.name = shape.name,
                 .device = shape.device,
                 .dtype = shape.dtype,
                 .seed = shape.seed,
                 .ranks = ranks,
                 .exchange = exchange};
  work.make_model = [shape](const runtime::Context& context) {
    auto model = std::make_unique<models::Seq2Seq>(shape.config());
    model->parameters().allocate(context, base::DType::kFloat32, true);
    model->parameters().initialize(context, shape.seed);
    return model;
  };
  TrainShape own = shape;
  if (ranks != nullptr) own.seed += static_cast<std::uint64_t>(ranks->rank());
  work.make_batches = [own] { return std::make_unique<TokenBatches>(own); };
  return work;
}

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

std::vector<TrainResult> measure_shapes(const TrainBenchOptions& options,
                                        distributed::Communicator* ranks, std::ostream& out) {
  const std::vector<TrainShape> shapes = read_shapes(options.shapes, options.dtype, options.device);
  Table<TrainResult> table(options, out, "shape");
  for (const TrainShape& shape : shapes) {
    table.measure(work_of(shape, ranks, options.exchange), [&](StepResult result) {
      TrainResult of_shape{std::move(result), shape};
      of_shape.shape.device = of_shape.device;
      return of_shape;
    });
  }
  return table.finish();
}

std::vector<TrainResult> measure_on_gpus(TrainBenchOptions options,
                                         distributed::Communicator& process, std::ostream& out) {
  options.device = distributed::device_here(options.devices, {});
  const std::unique_ptr<runtime::Device> gpu = runtime::open_device(options.device);
  const std::unique_ptr<distributed::Communicator> rank = distributed::join_nccl(*gpu, process);
  if (rank->rank() == 0) return measure_shapes(options, &*rank, out);
  options.json.clear();
  std::ostringstream nobody;
  measure_shapes(options, &*rank, nobody);
  return {};
}

}  // namespace

std::vector<TrainResult> run_train_bench(const TrainBenchOptions& options, std::ostream& out) {
  if (options.devices.empty()) return measure_shapes(options, nullptr, out);
  TrainBenchOptions ranked = options;
  training::TrainConfig config;
  config.devices = fmt::format("{}", fmt::join(options.devices, ","));
  ranked.devices = training::devices_of(config);
  SLUICE_CHECK(ranked.devices.size() > 1 && ranked.devices.front().starts_with("cuda:"),
               "--devices is '{}'; name several GPUs, as in cuda:0,cuda:1", config.devices);
  SLUICE_CHECK(!options.profile.is_asked_for(), "a profile is of one GPU: leave --devices out");
  distributed::Communicator* process = distributed::rank_of_process();
  if (process == nullptr) process = distributed::start_others(ranked.devices, options.command);
  return distributed::as_rank(process, [&] { return measure_on_gpus(ranked, *process, out); });
}

std::vector<ConfigResult> run_config_bench(const TrainBenchOptions& options, std::ostream& out) {
  Table<ConfigResult> table(options, out, "configuration");
  for (const std::string& path : options.config.paths) {
    ConfigWork work = read_config_work(options.config, path, options.device, options.dtype);
    const std::string dtype = work.work.dtype;
    table.measure(std::move(work.work), [&](StepResult result) {
      return ConfigResult{std::move(result), work.sizes, dtype};
    });
  }
  return table.finish();
}

}  // namespace sluice::bench::train
