#include "training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "io/checkpoint.h"
#include "io/directory_swap.h"
#include "io/safetensors_header.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;
using base::fail;
using runtime::DType;

io::Container model_container(const Context& context, const models::Seq2Seq& model,
                              const Tokenizers& tokenizers, const TrainConfig& config) {
  io::Container container;
  container.text = to_json(ModelText{model.config().to_json(), to_toml(config)});
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
  container.blobs[kSourceTokenizer] = tokenizers.source->serialize();
  container.blobs[kTargetTokenizer] = tokenizers.target->serialize();
  return container;
}

std::shared_ptr<const data::Tokenizer> tokenizer_of(const io::Container& container,
                                                    std::string_view blob) {
  try {
    return data::load_tokenizer(io::require_blob(container, blob));
  } catch (const Error& error) {
    fail(error.code(), "'{}': {}: {}", container.origin, blob, error.what());
  }
}

Tokenizers tokenizers_of(const io::Container& container) {
  const std::string& source = io::require_blob(container, kSourceTokenizer);
  Tokenizers tokenizers{tokenizer_of(container, kSourceTokenizer), nullptr};
  const bool shared = source == io::require_blob(container, kTargetTokenizer);
  tokenizers.target = shared ? tokenizers.source : tokenizer_of(container, kTargetTokenizer);
  return tokenizers;
}

void check_vocabulary(const io::Container& container, std::string_view side,
                      std::int64_t vocabulary, const data::Tokenizer& tokenizer) {
  if (vocabulary == tokenizer.size()) return;
  fail(ErrorCode::kFormat, "'{}': the {} vocabulary has {} ids, but its tokenizer has {}",
       container.origin, side, vocabulary, tokenizer.size());
}

models::Seq2SeqConfig architecture_of(const io::Container& container, const std::string& json) {
  try {
    return models::Seq2SeqConfig::from_json(json);
  } catch (const Error& error) {
    // Whatever is wrong in it, it came from the file.
    fail(ErrorCode::kFormat, "'{}': {}", container.origin, error.what());
  }
}

void read_parameters(const Context& context, const io::Container& container,
                     const layers::Parameters& parameters) {
  std::vector<std::string_view> names;
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const layers::ParameterSpec& spec = parameters.specs()[id];
    const io::HostTensor& tensor = io::require_tensor(container, spec.name, spec.shape);
    parameters.upload<float>(context, id, tensor.values<float>());
    names.push_back(spec.name);
  }
  io::refuse_other_tensors(container, names);
}

}  // namespace

LoadedModel load_model(const Context& context, const fs::path& path, bool with_gradients) {
  const io::Container container = io::read_model(path);
  const ModelText text = parse_model_text(container.text, container.origin);
  LoadedModel loaded;
  loaded.config = parse_train_config(text.run, container.origin);
  loaded.tokenizers = tokenizers_of(container);
  const models::Seq2SeqConfig architecture = architecture_of(container, text.architecture);
  check_vocabulary(container, "source", architecture.source_vocabulary, *loaded.tokenizers.source);
  check_vocabulary(container, "target", architecture.target_vocabulary, *loaded.tokenizers.target);
  loaded.model = std::make_unique<models::Seq2Seq>(architecture);
  layers::Parameters& parameters = loaded.model->parameters();
  // A configuration that lies about sizes is caught before memory is taken for it.
  for (const layers::ParameterSpec& spec : parameters.specs()) {
    io::require_tensor(container, spec.name, spec.shape);
  }
  parameters.allocate(context, DType::kFloat32, with_gradients);
  read_parameters(context, container, parameters);
  return loaded;
}

Tokenizers load_tokenizers(const fs::path& path) { return tokenizers_of(io::read_model(path)); }

std::unique_ptr<models::Seq2Seq> make_model(const Context& context, const TrainConfig& config,
                                            const Tokenizers& tokenizers) {
  models::Seq2SeqConfig architecture = config.model;
  architecture.source_vocabulary = tokenizers.source->size();
  architecture.target_vocabulary = tokenizers.target->size();
  auto model = std::make_unique<models::Seq2Seq>(architecture);
  model->parameters().allocate(context, DType::kFloat32, true);
  model->parameters().initialize(context, static_cast<std::uint64_t>(config.loop.seed));
  return model;
}

void save_model(const Context& context, const fs::path& directory, const models::Seq2Seq& model,
                const Tokenizers& tokenizers, const TrainConfig& config) {
  io::write_checkpoint(directory, model_container(context, model, tokenizers, config), nullptr);
}

void save_checkpoint(const Context& context, const fs::path& directory,
                     const models::Seq2Seq& model, const Tokenizers& tokenizers,
                     const TrainConfig& config, const Optimizer& optimizer,
                     const TrainingState& state) {
  io::Container state_container;
  state_container.text = to_json(state);
  optimizer.save(context, state_container.tensors);
  io::write_checkpoint(directory, model_container(context, model, tokenizers, config),
                       &state_container);
}

TrainingState load_training_state(const Context& context, const fs::path& directory,
                                  const Optimizer& optimizer) {
  const io::Container container = io::read_state(directory);
  TrainingState state = parse_training_state(container.text, container.origin);
  optimizer.load(context, container);
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
