#include "api/loaded_model.h"

#include <fmt/format.h>

#include "api/precision.h"
#include "base/check.h"
#include "io/checkpoint.h"

namespace sluice {

namespace {

/// What "auto" stands for.
std::string_view automatic_precision(const runtime::Device& device, const std::string& path) {
  const base::DType stored = io::narrowest_dtype(path);
  if (stored == base::DType::kFloat32) return "float32";
  if (!device.runs_host_kernels()) return "bfloat16";
  return stored == base::DType::kInt8 ? "int8" : "float32";
}

}  // namespace

runtime::Context api::context_on(runtime::Device& device, const Placement& placement,
                                 const std::string& path) {
  runtime::Context context(device);
  context.set_warnings(&placement.warnings);
  context.set_interrupt(&placement.interrupt);
  context.set_precision(runtime::Precision::parse(
      placement.precision == "auto" ? automatic_precision(device, path) : placement.precision));
  SLUICE_CHECK(!context.precision().int8 || device.runs_host_kernels(),
               "precision int8 is the CPU's; {} runs a model with 8-bit weights in bfloat16, which "
               "auto chooses",
               device.name());
  if (context.precision().storage != base::DType::kFloat32) {
    require_fast(context.precision(), device, kind_of_model(path));
  }
  return context;
}

void api::require_kind(const std::string& path, const model_files::LoadedModel& loaded,
                       std::string_view kind) {
  SLUICE_CHECK(loaded.kind->name == kind,
               "'{}' holds a model of kind {}, but one of kind {} is needed here; what it holds is "
               "used by {}",
               path, loaded.kind->name, kind, loaded.kind->commands);
}

ModelInfo api::model_info(const runtime::Context& context, const std::string& path,
                          const model_files::LoadedModel& loaded) {
  const layers::Parameters& parameters = loaded.model->parameters();
  ModelInfo info;
  info.path = path;
  info.kind = loaded.kind->name;
  info.configuration = loaded.model->configuration();
  info.parameters = parameters.element_count();
  info.stored = base::name_of(loaded.stored);
  for (const model_files::Vocabulary vocabulary : model_files::kVocabularies) {
    if (!loaded.tokenizers.has(vocabulary)) continue;
    const bool labels = vocabulary == model_files::Vocabulary::kLabels;
    info.vocabularies.emplace_back(
        labels ? "labels" : fmt::format("{} tokenizer", model_files::side_name(vocabulary)),
        loaded.tokenizers.describe(vocabulary));
  }
  for (const layers::ParameterSpec& spec : parameters.specs()) {
    info.tensors.emplace_back(spec.name, spec.shape.to_string());
  }
  runtime::ArenaPlanner planner;
  info.explanation = loaded.model->training_plan(context, planner, {1, 1, 1}, false)->explain();
  return info;
}

ModelInfo describe_model(const std::string& path, const Placement& placement) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(placement.device);
  const runtime::Context context = api::context_on(*device, placement, path);
  return api::model_info(context, io::model_file(path).native(),
                         model_files::load_model(context, path));
}

std::string kind_of_model(const std::string& path) {
  return std::string(model_files::kind_of_checkpoint(path).name);
}

}  // namespace sluice
