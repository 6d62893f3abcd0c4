#pragma once

#include <filesystem>
#include <memory>

#include "models/model.h"
#include "runtime/context.h"
#include "training/optimizer.h"
#include "training/run_folder.h"
#include "training/task.h"
#include "training/tokenizers.h"
#include "training/train_config.h"
#include "training/training_state.h"

namespace sluice::training {

using runtime::Context;

/// A model with all that running it takes.
struct LoadedModel {
  const Task* task = nullptr;            ///< of its kind
  std::unique_ptr<models::Model> model;  ///< parameters on the context's device
  Tokenizers tokenizers;
  TrainConfig config;  ///< of the run that trained it
  /// What its matrices are stored in; in memory parameters are float32.
  runtime::DType stored = runtime::DType::kFloat32;
};

/// Reads a checkpoint folder or a model.safetensors. Every tensor must be there with the name and
/// shape that the configuration asks for, and no other. Throws ErrorCode::kNotFound if there is
/// none, ErrorCode::kFormat for what is damaged, does not fit together, is newer than this program
/// or of a kind of model that it doesn't know.
LoadedModel load_model(const Context& context, const std::filesystem::path& path,
                       bool with_gradients = false);

/// The same of a container that has been read, or is to be written.
LoadedModel load_model(const Context& context, const io::Container& container,
                       bool with_gradients = false);

/// The task of the kind of model that a checkpoint holds. Throws as load_model.
const Task& task_of_checkpoint(const std::filesystem::path& path);

/// The tokenizers alone, without the weights going to a device.
Tokenizers load_tokenizers(const std::filesystem::path& path);
/// The same of a run that is to be resumed with this configuration. Throws
/// ErrorCode::kInvalidArgument if it is one of another kind of model, and as go_on_from(): before
/// data are prepared, which may take long.
Tokenizers load_run_tokenizers(const RunFolder& folder, const TrainConfig& config);

/// A model of new weights for these examples, of the kind that the configuration asks for.
std::unique_ptr<models::Model> make_model(const Context& context, const TrainConfig& config,
                                          const TrainData& data);

/// What save_model writes. Waits for the device. Throws ErrorCode::kNumeric for weights that are
/// not finite.
io::Container model_container(const Context& context, const models::Model& model,
                              const Tokenizers& tokenizers, const TrainConfig& config);

/// Writes model.safetensors as a folder, whole or not at all (io::AtomicDirectory): float32
/// tensors, configuration, tokenizers. Waits for the device. Throws ErrorCode::kIo if the disk
/// refuses; the folder that was there before is then in place.
void save_model(const Context& context, const std::filesystem::path& directory,
                const models::Model& model, const Tokenizers& tokenizers,
                const TrainConfig& config);
/// The same, and what resuming takes beside it.
void save_checkpoint(const Context& context, const std::filesystem::path& directory,
                     const models::Model& model, const Tokenizers& tokenizers,
                     const TrainConfig& config, const Optimizer& optimizer,
                     const TrainingState& state);

/// What save_checkpoint wrote beside the model; fills in the moments and Model::carried_tensors.
TrainingState load_training_state(const Context& context, const std::filesystem::path& directory,
                                  const models::Model& model, const Optimizer& optimizer);

/// Whether a folder holds a checkpoint to resume from; first brings it into order after a killed
/// writer.
bool has_checkpoint(const std::filesystem::path& directory);

}  // namespace sluice::training
