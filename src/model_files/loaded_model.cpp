#include "model_files/loaded_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "io/safetensors_header.h"
#include "model_files/model_text.h"
#include "model_files/stored_weights.h"

namespace sluice::model_files {
namespace {

namespace fs = std::filesystem;
using base::fail;
using runtime::DType;

// The kind of model that a configuration is of.
const ModelKind& kind_of_configuration(const io::Container& container, const std::string& json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  const auto found = parsed.is_object() ? parsed.find("model") : parsed.end();
  if (found == parsed.end() || !found->is_string()) {
    fail(ErrorCode::kFormat, "'{}': its configuration says no kind of model", container.origin);
  }
  const std::string& name = found->get_ref<const std::string&>();
  const ModelKind* kind = find_kind(name);
  if (kind == nullptr) {
    fail(ErrorCode::kFormat, "'{}' is a model of kind {}; this program knows {}", container.origin,
         io::quote_name(name), names_of_kinds());
  }
  return *kind;
}

std::unique_ptr<models::Model> model_of(const io::Container& container, const ModelKind& kind,
                                        const std::string& json, const Tokenizers& tokenizers) {
  try {
    return kind.saved_model(json, tokenizers);
  } catch (const Error& error) {
    // Whatever is wrong in it, it came from the file.
    fail(ErrorCode::kFormat, "'{}': {}", container.origin, error.what());
  }
}

void read_parameters(const Context& context, const io::Container& container,
                     const layers::Parameters& parameters) {
  std::vector<std::string_view> names;
  std::deque<std::string> scale_names;
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    const std::vector<float> values = stored_values(container, spec.name, spec.shape);
    parameters.upload<float>(context, id, values);
    names.push_back(spec.name);
    if (container.tensors.find(spec.name)->dtype == DType::kInt8) {
      names.push_back(scale_names.emplace_back(scale_name(spec.name)));
    }
  }
  io::refuse_other_tensors(container, names);
}

}  // namespace

void allocate_parameters(const Context& context, layers::Parameters& parameters,
                         bool with_gradients) {
  try {
    parameters.allocate(context, DType::kFloat32, with_gradients);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    fail(error.code(), "the model's {} parameters{} don't fit: {}; take a smaller model",
         parameters.element_count(), with_gradients ? " and their gradients" : "", error.what());
  }
}

io::Container model_container(const Context& context, const models::Model& model,
                              const Tokenizers& tokenizers, std::string_view run) {
  io::Container container;
  container.text = to_json(ModelText{model.configuration(), std::string(run)});
  const layers::Parameters& parameters = model.parameters();
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    const std::vector<float> values = parameters.download<float>(context, id);
    // A model that diverged must not take the place of the last good one.
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      fail(ErrorCode::kNumeric,
           "training diverged: {} holds values that are not finite, so it is not saved; lower "
           "training.learning_rate or training.clip_norm",
           io::quote_name(spec.name));
    }
    container.tensors.add(spec.name, io::HostTensor::copy_of<float>(values, spec.shape));
  }
  container.blobs = to_blobs(tokenizers);
  return container;
}

LoadedModel load_model(const Context& context, const fs::path& path, bool with_gradients) {
  return load_model(context, io::read_model(path), with_gradients);
}

LoadedModel load_model(const Context& context, const io::Container& container,
                       bool with_gradients) {
  const ModelText text = parse_model_text(container.text, container.origin);
  LoadedModel loaded;
  loaded.run = text.run;
  loaded.origin = container.origin;
  loaded.tokenizers = tokenizers_of(container);
  loaded.kind = &kind_of_configuration(container, text.architecture);
  loaded.model = model_of(container, *loaded.kind, text.architecture, loaded.tokenizers);
  layers::Parameters& parameters = loaded.model->parameters();
  // A configuration that lies about sizes is caught before memory is taken for it.
  for (const layers::ParameterSpec& spec : parameters.specs()) {
    require_stored(container, spec.name, spec.shape);
  }
  loaded.stored = stored_dtype(container);
  allocate_parameters(context, parameters, with_gradients);
  read_parameters(context, container, parameters);
  return loaded;
}

const ModelKind& kind_of_container(const io::Container& container) {
  return kind_of_configuration(container,
                               parse_model_text(container.text, container.origin).architecture);
}

const ModelKind& kind_of_checkpoint(const fs::path& path) {
  return kind_of_container(io::read_model(path));
}

Tokenizers load_tokenizers(const fs::path& path) { return tokenizers_of(io::read_model(path)); }

void save_model(const Context& context, const fs::path& directory, const models::Model& model,
                const Tokenizers& tokenizers, std::string_view run) {
  io::write_checkpoint(directory, model_container(context, model, tokenizers, run), nullptr,
                       context.warnings());
}

}  // namespace sluice::model_files
