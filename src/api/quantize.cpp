#include "sluice/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "api/output_folder.h"
#include "api/text_segmentation.h"
#include "base/check.h"
#include "io/checkpoint.h"
#include "model_files/stored_weights.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"
#include "training/quantization.h"
#include "training/validation.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using runtime::Context;
using runtime::DType;
using runtime::Precision;

/// Passes are repeated for so long, so that the fastest is not chance.
constexpr double kSeconds = 2;
constexpr int kMostPasses = 5;

/// One model on the examples, in one precision.
class Judge {
 public:
  Judge(runtime::Device& device, std::string_view precision, const model_files::LoadedModel& loaded,
        const training::Validation& validation)
      : context_(device), loaded_(loaded), validation_(validation), plans_(*loaded.model) {
    context_.set_precision(Precision::parse(precision));
    side_.precision = precision;
  }

  /// Measures quality, and is a pass that counts for nothing else: it makes plans.
  void judge(const training::ValidationMetric& metric) {
    const training::ValidationReport report = run();
    for (const training::Measured& one : report.measured) {
      side_.metrics.emplace_back(one.metric->name, one.metric->show(one.value));
    }
    side_.value = metric.minimised(report.metric);
  }

  /// Seconds of a pass.
  double time() {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    side_.seconds = side_.seconds == 0 ? spent.count() : std::min(side_.seconds, spent.count());
    return spent.count();
  }

  QuantizeReport::Side& side() { return side_; }

 private:
  training::ValidationReport run() {
    return *validation_.run(context_, *loaded_.model, plans_, 0, nullptr);
  }

  Context context_;
  const model_files::LoadedModel& loaded_;
  const training::Validation& validation_;
  model_files::PlanCache plans_;
  QuantizeReport::Side side_;
};

/// Of what `before` was, how much `after` is worse.
double lost(const training::ValidationMetric& metric, double before, double after) {
  const double worse = metric.higher_is_better ? before - after : after - before;
  if (before == 0) return worse > 0 ? std::numeric_limits<double>::infinity() : 0;
  return worse / std::abs(before);
}

const training::ValidationMetric& metric_of(const model_files::LoadedModel& loaded,
                                            const std::string& wanted) {
  const std::string_view key = wanted.empty() ? training::usual_metric(loaded) : wanted;
  const training::ValidationMetric* metric = training::task_of(loaded).find_metric(key);
  std::string known;
  for (const training::ValidationMetric& one : training::task_of(loaded).metrics()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.key);
  }
  SLUICE_CHECK(metric != nullptr, "a model of kind {} has no metric '{}'; use one of {}",
               loaded.kind->name, key, known);
  return *metric;
}

void check(const QuantizeRequest& request) {
  SLUICE_CHECK(request.dtype == "int8" || request.dtype == "bfloat16",
               "weights are stored as int8 or bfloat16, not '{}'", request.dtype);
  SLUICE_CHECK(request.most_lost >= 0,
               "the share of quality that may be lost is {}; it must not be "
               "negative",
               request.most_lost);
  api::prepare_output_folder(request.output);
}

std::uint64_t bytes_of(const fs::path& path) { return fs::file_size(io::model_file(path)); }

/// Passes in turns, so that both meet the same moments of the machine.
void time_in_turns(Judge& before, Judge& after) {
  double spent = 0;
  for (int pass = 0; pass < kMostPasses && spent < kSeconds; ++pass) {
    spent += before.time();
    spent += after.time();
  }
}

}  // namespace

QuantizeReport quantize(const QuantizeRequest& request) {
  check(request);
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  Context context(*device);
  runtime::use_threads(context, 0);
  const model_files::LoadedModel loaded = model_files::load_model(context, request.model);
  SLUICE_CHECK(loaded.stored == DType::kFloat32,
               "'{}' is stored as {} already; quantize the model that it was made from",
               request.model, base::name_of(loaded.stored));
  const training::ValidationMetric& metric = metric_of(loaded, request.metric);
  training::TrainConfig config =
      training::config_to_read(loaded, request.data, request.targets, request.resets);
  const api::TextSegmentation segmentation(request.model, training::run_config(loaded),
                                           request.segmenters);
  config.data.source_segmenter = segmentation.source_command();
  config.data.target_segmenter = segmentation.target_command();
  const training::TrainData data = training::read_to_judge(loaded, config);
  const training::Validation validation(data, training::batches_to_judge(loaded, *data.validation),
                                        training::task_of(loaded), metric.key);

  const bool int8 = request.dtype == "int8";
  Context narrow(*device);
  narrow.set_precision(Precision::parse(int8 ? "int8" : "float32"));
  training::Calibration calibration;
  if (int8 && request.calibrate) {
    calibration = training::calibrate(narrow, loaded, *data.validation);
  }
  const std::vector<double>& clips = calibration.clips;
  const io::Container container =
      training::quantized_container(context, loaded, int8 ? DType::kInt8 : DType::kBFloat16, clips);
  const model_files::LoadedModel quantized = model_files::load_model(narrow, container);

  Judge before(*device, "float32", loaded, validation);
  Judge after(*device, int8 ? "int8" : "float32", quantized, validation);
  before.judge(metric);
  after.judge(metric);
  QuantizeReport report;
  report.metric = metric.name;
  // Such as the BLEU of a model that has learnt little.
  report.judged = !metric.higher_is_better || metric.show(before.side().value) != metric.show(0);
  report.examples = data.validation->size();
  report.lost = lost(metric, before.side().value, after.side().value);
  if (!(report.lost <= request.most_lost)) {
    base::fail(ErrorCode::kNumeric,
               "in {} the model's {} is {} instead of {}, which loses {:.2f}% and more than the "
               "{:.2f}% allowed: nothing is written; calibrate on more examples, or store it in "
               "bfloat16",
               request.dtype, metric.name, metric.show(after.side().value),
               metric.show(before.side().value), 100 * report.lost, 100 * request.most_lost);
  }
  io::write_checkpoint(request.output, container, nullptr, &request.warnings);
  time_in_turns(before, after);
  for (const layers::ParameterSpec& spec : loaded.model->parameters().specs()) {
    report.matrices += training::is_quantized(*loaded.kind, spec) ? 1 : 0;
  }
  report.clipped = std::count_if(clips.begin(), clips.end(), [](double clip) { return clip < 1; });
  report.before = before.side();
  report.after = after.side();
  report.before.bytes = bytes_of(request.model);
  report.after.bytes = bytes_of(request.output);
  return report;
}

std::string quantize_table(const QuantizeReport& report) {
  std::string text;
  const auto row = [&](std::string_view name, std::string_view before, std::string_view after,
                       std::string_view change) {
    text += fmt::format("{:<22} {:>14} {:>14}  {}\n", name, before, after, change);
  };
  const QuantizeReport::Side &before = report.before, &after = report.after;
  const auto mib = [](std::uint64_t bytes) {
    return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  const auto rate = [&](const QuantizeReport::Side& side) {
    return fmt::format("{:.1f}", static_cast<double>(report.examples) / side.seconds);
  };
  row("", "before", "after", "");
  row("computed in", before.precision, after.precision, "");
  row("model.safetensors", mib(before.bytes), mib(after.bytes),
      fmt::format("{:.2f} times smaller",
                  static_cast<double>(before.bytes) / static_cast<double>(after.bytes)));
  for (std::size_t i = 0; i < before.metrics.size(); ++i) {
    const auto& [name, value] = before.metrics[i];
    const std::string change = name != report.metric ? ""
                               : !report.judged      ? "tells nothing: 0 before (see --metric)"
                               : report.lost == 0    ? "nothing lost"
                               : report.lost > 0 ? fmt::format("{:.2f}% lost", 100 * report.lost)
                                                 : fmt::format("nothing lost ({:.2f}% better)",
                                                               100 * std::abs(report.lost));
    row(name, value, after.metrics[i].second, change);
  }
  row("examples a second", rate(before), rate(after),
      fmt::format("{:.2f} times as fast", before.seconds / after.seconds));
  return text;
}

}  // namespace sluice
