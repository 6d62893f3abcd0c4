#include "training/checkpoint.h"

#include <string_view>
#include <vector>

#include "base/check.h"
#include "io/checkpoint.h"
#include "io/directory_swap.h"
#include "model_files/model_text.h"
#include "training/gate_bias.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;
using base::fail;

void load_carried(const Context& context, const io::Container& container,
                  const models::Model& model) {
  std::vector<CarriedTensor> carried;
  for (const models::NamedTensor& one : model.carried_tensors()) {
    const io::HostTensor& saved = io::require_tensor(container, one.name, one.value.shape());
    const std::span<const float> values = saved.values<float>();
    carried.push_back({one.name, one.value.shape(), {values.begin(), values.end()}});
  }
  upload_carried(context, model, carried);
}

}  // namespace

TrainConfig run_config(const LoadedModel& loaded) {
  return parse_train_config(loaded.run, loaded.origin);
}

Tokenizers load_run_tokenizers(const fs::path& folder, const TrainConfig& config) {
  const io::Container container = io::read_model(folder / io::kLastFolderName);
  const std::string_view kind = model_files::kind_of_container(container).name;
  SLUICE_CHECK(kind == config.model.kind,
               "'{}' holds a model of kind {}, but model.kind is '{}': choose another "
               "output.directory",
               container.origin, kind, config.model.kind);
  TrainConfig resumed = config;
  const std::string run = model_files::parse_model_text(container.text, container.origin).run;
  go_on_from(parse_train_config(run, container.origin), folder.native(), resumed);
  Tokenizers tokenizers = model_files::tokenizers_of(container);
  if (tokenizers.labels) {
    // Files that have others now hold other examples, which will show later, if not by this.
    tokenizers.labels = std::make_shared<data::Labels>(tokenizers.labels->held_by(
        fmt::format("that the run in '{}' was started with", folder.native()),
        "name files with the same examples, or choose another output.directory"));
  }
  return tokenizers;
}

std::unique_ptr<models::Model> make_model(const Context& context, const TrainConfig& config,
                                          const TrainData& data) {
  const Task& task = task_of(config);
  std::unique_ptr<models::Model> model = task.make_model(config, data);
  model_files::allocate_parameters(context, model->parameters(), true);
  model->parameters().initialize(context, static_cast<std::uint64_t>(config.loop.seed),
                                 {layers::parse_distribution(config.initial.initializer),
                                  layers::parse_distribution(config.initial.recurrent_initializer),
                                  gate_bias_of(config.initial, config.model.cell)});
  task.set_from_data(context, data, model->parameters());
  return model;
}

void save_checkpoint(const Context& context, const fs::path& directory, const models::Model& model,
                     const Tokenizers& tokenizers, const TrainConfig& config,
                     const Optimizer& optimizer, const TrainingState& state,
                     const std::vector<CarriedTensor>& carried) {
  io::Container state_container;
  state_container.text = to_json(state);
  optimizer.save(context, state_container.tensors);
  for (const CarriedTensor& one : carried) {
    state_container.tensors.add(one.name, io::HostTensor::copy_of<float>(one.values, one.shape));
  }
  io::write_checkpoint(directory,
                       model_files::model_container(context, model, tokenizers, to_toml(config)),
                       &state_container, context.warnings());
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
