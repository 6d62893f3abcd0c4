#include "bench/train/train_bench.h"

#include <cmath>
#include <optional>
#include <ostream>

#include "bench/output_file.h"
#include "bench/statistics.h"
#include "bench/train/token_batches.h"
#include "kernels/loss/loss.h"
#include "models/seq2seq.h"
#include "profiling/session.h"
#include "runtime/span.h"
#include "training/training_step.h"

namespace sluice::bench::train {

using runtime::Context;
using training::StepSums;
using training::TrainingStep;

namespace {

constexpr int kWarmUp = 3;
constexpr double kLearningRate = 1e-3;
constexpr profiling::StepRange kProfiledSteps{1, 3};
constexpr const char* kRow = "{:<16} {:<9} {:<14} {:>10} {:>11} {:>12} {:>10} {:>8}\n";

// A model and the steps that train it, one implementation after the other.
class Bench {
 public:
  Bench(const TrainShape& shape, const TrainBenchOptions& options, profiling::Session& session)
      : shape_(shape),
        options_(options),
        session_(session),
        device_(runtime::open_device(shape.device)),
        context_(*device_),
        model_(shape.config()) {
    context_.set_precision(runtime::Precision::parse(shape.dtype));
    model_.parameters().allocate(context_, base::DType::kFloat32, true);
    // Then it does so only where a tool watches, which is to see the timed steps.
    if (!options_.profile.is_asked_for()) session_.attach(context_, kProfiledSteps);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { session_.detach(); }

  bool can_capture() const { return context_.stream().can_capture(); }
  TrainResult run(bool captured);
  /// Further steps, so that the timed ones are not slowed by being recorded; captured anew, for who
  /// queued what is only known of a graph that was captured while it was watched.
  void profile(bool captured);

 private:
  TrainingStep::Options step_options(bool captured) const {
    return {
        .seed = shape_.seed, .static_shapes = captured, .loss_scaling = shape_.dtype == "float16"};
  }

  TrainShape shape_;
  const TrainBenchOptions& options_;
  profiling::Session& session_;
  std::unique_ptr<runtime::Device> device_;
  Context context_;
  models::Seq2Seq model_;
};

std::string name_of(bool captured) { return captured ? "sluice+graph" : "sluice"; }

TrainResult Bench::run(bool captured) {
  model_.parameters().initialize(context_, shape_.seed);
  device_->reset_memory_peak();
  TrainingStep step(context_, model_, {}, step_options(captured));
  TokenBatches batches(shape_);
  std::int64_t number = 0;
  StepSums sums;
  std::vector<double> times;
  while (number < kWarmUp + options_.repeats) {
    const data::Batch batch = batches.next();
    const double time = context_.stream().milliseconds_of([&] {
      sums = step.run(context_, {&batch, 1}, ++number, kLearningRate);
    });
    if (number > kWarmUp) times.push_back(time);
  }
  const double tokens = static_cast<double>(shape_.batch * shape_.target_time);
  const double loss = context_.download<double>(sums.loss)[kernels::loss::kLoss] / tokens;
  if (!std::isfinite(loss)) {
    base::fail(ErrorCode::kNumeric, "{} in {} on {}: the loss is {} after {} steps", shape_.name,
               shape_.dtype, device_->name(), loss, number);
  }
  TrainResult result;
  result.shape = shape_;
  result.shape.device = device_->name();
  result.implementation = name_of(captured);
  result.device_model = device_->model();
  result.is_default = captured == can_capture();
  result.milliseconds = median(times);
  result.peak_bytes = device_->memory_peak();
  result.parameters = model_.parameters().element_count();
  result.loss = loss;
  return result;
}

void Bench::profile(bool captured) {
  if (!options_.profile.is_asked_for()) return;
  const std::int64_t named = options_.profile.last_step;
  const std::int64_t last = named > 0 ? named : kProfiledSteps.last;
  session_.attach(context_, kProfiledSteps);
  TrainingStep step(context_, model_, {}, step_options(captured));
  TokenBatches batches(shape_);
  const auto run = [&](std::int64_t number) {
    const data::Batch batch = batches.next();
    step.run(context_, {&batch, 1}, number, kLearningRate);
  };
  for (int number = 1; number <= kWarmUp; ++number) run(number);
  const std::string name = fmt::format("{} {} step", shape_.name, name_of(captured));
  for (std::int64_t number = 1; number <= last; ++number) {
    runtime::run_step(context_, name, number, [&] { run(kWarmUp + number); });
  }
  session_.detach();
}

void print(std::ostream& out, const TrainResult& result) {
  out << fmt::format(kRow, result.shape.name, result.shape.dtype,
                     result.implementation + (result.is_default ? " *" : ""),
                     fmt::format("{:.3f}", result.milliseconds),
                     fmt::format("{:.0f}", result.pairs_per_second()),
                     fmt::format("{:.0f}", result.tokens_per_second()),
                     fmt::format("{:.0f}", static_cast<double>(result.peak_bytes) / (1 << 20)),
                     fmt::format("{:.3f}", result.loss))
      << std::flush;
}

}  // namespace

double TrainResult::pairs_per_second() const {
  return static_cast<double>(shape.batch) / milliseconds * 1e3;
}

double TrainResult::tokens_per_second() const {
  return static_cast<double>(shape.tokens()) / milliseconds * 1e3;
}

std::vector<TrainResult> run_train_bench(const TrainBenchOptions& options, std::ostream& out) {
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  const std::vector<TrainShape> shapes = read_shapes(options.shapes, options.dtype, options.device);
  if (!options.json.empty()) require_writable(options.json);
  profiling::Session session(options.profile, profiling::print, profiling::Session::Turns::kMany);
  std::vector<TrainResult> all;
  for (const TrainShape& shape : shapes) {
    Bench bench(shape, options, session);
    if (all.empty()) {
      out << fmt::format(kRow, "shape", "dtype", "*=default", "ms", "pairs/s", "tokens/s",
                         "peak MiB", "loss");
    }
    for (const bool captured : {false, true}) {
      if (captured && !bench.can_capture()) continue;
      all.push_back(bench.run(captured));
      print(out, all.back());
      bench.profile(captured);
    }
  }
  session.finish();
  if (!options.json.empty()) write_file(options.json, to_json(all));
  return all;
}

}  // namespace sluice::bench::train
