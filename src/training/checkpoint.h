#pragma once

#include <filesystem>
#include <memory>

#include "model_files/loaded_model.h"
#include "models/model.h"
#include "runtime/context.h"
#include "training/carried.h"
#include "training/optimizer.h"
#include "training/run_folder.h"
#include "training/task.h"
#include "training/train_config.h"
#include "training/training_state.h"

namespace sluice::training {

using model_files::LoadedModel;
using runtime::Context;

/// The configuration of the run that trained a model. Throws as parse_train_config.
TrainConfig run_config(const LoadedModel& loaded);

/// The tokenizers of the run in `folder` that is to be resumed with this configuration. Throws
/// ErrorCode::kInvalidArgument if it is one of another kind of model, and as go_on_from(): before
/// data are prepared, which may take long.
Tokenizers load_run_tokenizers(const std::filesystem::path& folder, const TrainConfig& config);

/// A model of new weights for these examples, of the kind that the configuration asks for.
std::unique_ptr<models::Model> make_model(const Context& context, const TrainConfig& config,
                                          const TrainData& data);

/// Writes a model (model_files::save_model), and what resuming takes beside it.
void save_checkpoint(const Context& context, const std::filesystem::path& directory,
                     const models::Model& model, const Tokenizers& tokenizers,
                     const TrainConfig& config, const Optimizer& optimizer,
                     const TrainingState& state, const std::vector<CarriedTensor>& carried);

/// What save_checkpoint wrote beside the model; fills in the moments and Model::carried_tensors.
TrainingState load_training_state(const Context& context, const std::filesystem::path& directory,
                                  const models::Model& model, const Optimizer& optimizer);

/// Whether a folder holds a checkpoint to resume from; first brings it into order after a killed
/// writer.
bool has_checkpoint(const std::filesystem::path& directory);

}  // namespace sluice::training
