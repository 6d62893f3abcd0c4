#include "training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "io/checkpoint.h"
#include "io/directory_swap.h"
#include "io/safetensors_header.h"
#include "kernels/elementwise/elementwise.h"
#include "training/gate_bias.h"
#include "training/stored_weights.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;
using base::fail;
using runtime::DType;
using runtime::Tensor;

// The kind of model that a configuration is of.
const Task& task_of_configuration(const io::Container& container, const std::string& json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  const auto kind = parsed.is_object() ? parsed.find("model") : parsed.end();
  if (kind == parsed.end() || !kind->is_string()) {
    fail(ErrorCode::kFormat, "'{}': its configuration says no kind of model", container.origin);
  }
  const std::string& name = kind->get_ref<const std::string&>();
  const Task* task = find_task(name);
  if (task == nullptr) {
    fail(ErrorCode::kFormat, "'{}' is a model of kind {}; this program knows {}", container.origin,
         io::quote_name(name), kinds_of_models());
  }
  return *task;
}

std::unique_ptr<models::Model> model_of(const io::Container& container, const Task& task,
                                        const std::string& json, const Tokenizers& tokenizers) {
  try {
    return task.saved_model(json, tokenizers);
  } catch (const Error& error) {
    // Whatever is wrong in it, it came from the file.
    fail(ErrorCode::kFormat, "'{}': {}", container.origin, error.what());
  }
}

/// In float32; says of what there is too little memory for.
void allocate(const Context& context, layers::Parameters& parameters, bool with_gradients) {
  try {
    parameters.allocate(context, DType::kFloat32, with_gradients);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    fail(error.code(), "the model's {} parameters{} don't fit: {}; take a smaller model",
         parameters.element_count(), with_gradients ? " and their gradients" : "", error.what());
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

/// A tensor in float32 on the device, which holds what 16 bits hold: a run may go on in another
/// precision.
struct InFloat32 {
  InFloat32(const Context& context, const runtime::Shape& shape)
      : memory(context.device(), sizeof(float) * static_cast<std::size_t>(shape.element_count())),
        tensor(memory.tensor(DType::kFloat32, shape)) {}

  runtime::Buffer memory;
  Tensor tensor;
};

void save_carried(const Context& context, const models::Model& model, io::TensorTable& tensors) {
  for (const models::NamedTensor& carried : model.carried_tensors()) {
    const InFloat32 wide(context, carried.value.shape());
    kernels::elementwise::convert(context, carried.value, wide.tensor);
    tensors.add(carried.name, io::HostTensor::copy_of<float>(context.download<float>(wide.tensor),
                                                             carried.value.shape()));
  }
}

void load_carried(const Context& context, const io::Container& container,
                  const models::Model& model) {
  for (const models::NamedTensor& carried : model.carried_tensors()) {
    const io::HostTensor& saved =
        io::require_tensor(container, carried.name, carried.value.shape());
    const InFloat32 wide(context, carried.value.shape());
    context.upload<float>(wide.tensor, saved.values<float>());
    kernels::elementwise::convert(context, wide.tensor, carried.value);
    context.synchronize();
  }
}

}  // namespace

io::Container model_container(const Context& context, const models::Model& model,
                              const Tokenizers& tokenizers, const TrainConfig& config) {
  io::Container container;
  container.text = to_json(ModelText{model.configuration(), to_toml(config)});
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
  loaded.config = parse_train_config(text.run, container.origin);
  loaded.tokenizers = tokenizers_of(container);
  loaded.task = &task_of_configuration(container, text.architecture);
  loaded.model = model_of(container, *loaded.task, text.architecture, loaded.tokenizers);
  layers::Parameters& parameters = loaded.model->parameters();
  // A configuration that lies about sizes is caught before memory is taken for it.
  for (const layers::ParameterSpec& spec : parameters.specs()) {
    require_stored(container, spec.name, spec.shape);
  }
  loaded.stored = stored_dtype(container);
  allocate(context, parameters, with_gradients);
  read_parameters(context, container, parameters);
  return loaded;
}

const Task& task_of_checkpoint(const fs::path& path) {
  const io::Container container = io::read_model(path);
  const ModelText text = parse_model_text(container.text, container.origin);
  return task_of_configuration(container, text.architecture);
}

Tokenizers load_tokenizers(const fs::path& path) { return tokenizers_of(io::read_model(path)); }

Tokenizers load_run_tokenizers(const RunFolder& folder, const TrainConfig& config) {
  const io::Container container = io::read_model(folder.last());
  const ModelText text = parse_model_text(container.text, container.origin);
  const Task& saved = task_of_configuration(container, text.architecture);
  SLUICE_CHECK(saved.kind() == config.model.kind,
               "'{}' holds a model of kind {}, but model.kind is '{}': choose another "
               "output.directory",
               container.origin, saved.kind(), config.model.kind);
  TrainConfig resumed = config;
  go_on_from(parse_train_config(text.run, container.origin), folder.path().native(), resumed);
  Tokenizers tokenizers = tokenizers_of(container);
  if (tokenizers.labels) {
    // Files that have others now hold other examples, which will show later, if not by this.
    tokenizers.labels = std::make_shared<data::Labels>(tokenizers.labels->held_by(
        fmt::format("that the run in '{}' was started with", folder.path().native()),
        "name files with the same examples, or choose another output.directory"));
  }
  return tokenizers;
}

std::unique_ptr<models::Model> make_model(const Context& context, const TrainConfig& config,
                                          const TrainData& data) {
  const Task& task = task_of(config);
  std::unique_ptr<models::Model> model = task.make_model(config, data);
  allocate(context, model->parameters(), true);
  model->parameters().initialize(context, static_cast<std::uint64_t>(config.loop.seed),
                                 {layers::parse_distribution(config.initial.initializer),
                                  layers::parse_distribution(config.initial.recurrent_initializer),
                                  gate_bias_of(config.initial, config.model.cell)});
  task.set_from_data(context, data, model->parameters());
  return model;
}

void save_model(const Context& context, const fs::path& directory, const models::Model& model,
                const Tokenizers& tokenizers, const TrainConfig& config) {
  io::write_checkpoint(directory, model_container(context, model, tokenizers, config), nullptr);
}

void save_checkpoint(const Context& context, const fs::path& directory, const models::Model& model,
                     const Tokenizers& tokenizers, const TrainConfig& config,
                     const Optimizer& optimizer, const TrainingState& state) {
  io::Container state_container;
  state_container.text = to_json(state);
  optimizer.save(context, state_container.tensors);
  save_carried(context, model, state_container.tensors);
  io::write_checkpoint(directory, model_container(context, model, tokenizers, config),
                       &state_container);
}

TrainingState load_training_state(const Context& context, const fs::path& directory,
                                  const models::Model& model, const Optimizer& optimizer) {
  const io::Container container = io::read_state(directory);
  TrainingState state = parse_training_state(container.text, container.origin);
  optimizer.load(context, container);
  load_carried(context, container, model);
  return state;
}

bool has_checkpoint(const fs::path& directory) {
  std::error_code ignored;
  // Without its parent nothing can be left of a writer.
  if (!fs::is_directory(directory.parent_path(), ignored)) return false;
  io::recover_directory(directory);
  return fs::exists(directory / io::kModelFileName, ignored);
}

}  // namespace sluice::training
