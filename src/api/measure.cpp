#include "sluice/measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/loaded_model.h"
#include "api/text_segmentation.h"
#include "base/check.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"
#include "training/quantization.h"
#include "training/validation.h"

namespace sluice {
namespace {

constexpr std::string_view kValidation = "validation: ";

training::TrainConfig config_of(const MeasureRequest& request,
                                const model_files::LoadedModel& loaded) {
  training::TrainConfig config =
      training::config_to_read(loaded, request.data, request.targets, request.resets);
  const api::TextSegmentation segmentation(request.model, training::run_config(loaded),
                                           request.segmenters);
  config.data.source_segmenter = segmentation.source_command();
  config.data.target_segmenter = segmentation.target_command();
  if (!request.text_column.empty()) config.data.text_column = request.text_column;
  if (!request.label_column.empty()) config.data.label_column = request.label_column;
  return config;
}

}  // namespace

Measurement measure(const MeasureRequest& request) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(request.placement.device);
  const runtime::Context context = api::context_on(*device, request.placement, request.model);
  runtime::use_threads(context, 0);
  const model_files::LoadedModel loaded = model_files::load_model(context, request.model);
  if (!request.kind.empty()) api::require_kind(request.model, loaded, request.kind);
  const training::TrainConfig config = config_of(request, loaded);
  const training::TrainData data = training::read_to_judge(loaded, config);
  const training::Validation validation(data, training::batches_to_judge(loaded, *data.validation),
                                        training::task_of(loaded), training::kLossMetric.key);
  model_files::PlanCache plans(*loaded.model);
  const auto report = validation.run(context, *loaded.model, plans, 0, nullptr);
  Measurement result;
  for (const training::Measured& one : report->measured) {
    result.metrics.emplace_back(one.metric->name, one.metric->show(one.value));
  }
  for (const std::string& note : data.notes) {
    if (note.starts_with(kValidation)) result.notes.push_back(note.substr(kValidation.size()));
  }
  return result;
}

std::string to_text(const Measurement& measurement) {
  std::string text;
  for (const auto& [name, value] : measurement.metrics) text += fmt::format("{} {}\n", name, value);
  for (const std::string& note : measurement.notes) text += fmt::format("# {}\n", note);
  return text;
}

}  // namespace sluice
