#include "bench/train/train_bench.h"

#include <cmath>
#include <optional>
#include <ostream>

#include "bench/output_file.h"
#include "bench/statistics.h"
#include "bench/train/token_batches.h"
#include "kernels/loss/loss.h"
#include "training/training_step.h"

namespace sluice::bench::train {

using runtime::Context;
using training::StepSums;
using training::TrainingStep;

namespace {

constexpr int kWarmUp = 3;
constexpr double kLearningRate = 1e-3;
constexpr const char* kRow = "{:<16} {:<9} {:<14} {:>10} {:>11} {:>12} {:>10} {:>8}\n";

// A model and the steps that train it, one implementation after the other.
class Bench {
 public:
  Bench(const TrainShape& shape, std::int64_t repeats)
      : shape_(shape),
        repeats_(repeats),
        device_(runtime::open_device(shape.device)),
        context_(*device_),
        model_(shape.config()) {
    context_.set_precision(runtime::Precision::parse(shape.dtype));
    model_.parameters().allocate(context_, base::DType::kFloat32, true);
  }

  bool can_capture() const { return context_.stream().can_capture(); }
  TrainResult run(bool captured);

 private:
  TrainShape shape_;
  std::int64_t repeats_;
  std::unique_ptr<runtime::Device> device_;
  Context context_;
  models::Seq2Seq model_;
};

TrainResult Bench::run(bool captured) {
  model_.parameters().initialize(context_, shape_.seed);
  device_->reset_memory_peak();
  TrainingStep::Options options;
  options.seed = shape_.seed;
  options.static_shapes = captured;
  options.loss_scaling = shape_.dtype == "float16";
  TrainingStep step(context_, model_, {}, options);
  TokenBatches batches(shape_);
  std::int64_t number = 0;
  StepSums sums;
  std::vector<double> times;
  while (number < kWarmUp + repeats_) {
    const data::PairBatch batch = batches.next();
    const double time = context_.stream().milliseconds_of(
        [&] { sums = step.run(context_, batch, ++number, kLearningRate); });
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
  result.implementation = captured ? "sluice+graph" : "sluice";
  result.device_model = device_->model();
  result.is_default = captured == can_capture();
  result.milliseconds = median(times);
  result.peak_bytes = device_->memory_peak();
  result.parameters = model_.parameters().element_count();
  result.loss = loss;
  return result;
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
  std::vector<TrainResult> all;
  for (const TrainShape& shape : shapes) {
    Bench bench(shape, options.repeats);
    if (all.empty()) {
      out << fmt::format(kRow, "shape", "dtype", "*=default", "ms", "pairs/s", "tokens/s",
                         "peak MiB", "loss");
    }
    for (const bool captured : {false, true}) {
      if (captured && !bench.can_capture()) continue;
      all.push_back(bench.run(captured));
      print(out, all.back());
    }
  }
  if (!options.json.empty()) write_file(options.json, to_json(all));
  return all;
}

}  // namespace sluice::bench::train
