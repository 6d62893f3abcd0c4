#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "io/checkpoint.h"
#include "model_files/model_kind.h"
#include "model_files/tokenizers.h"
#include "models/model.h"
#include "runtime/context.h"

namespace sluice::model_files {

using runtime::Context;

/// A model with all that running it takes.
struct LoadedModel {
  const ModelKind* kind = nullptr;
  std::unique_ptr<models::Model> model;  ///< parameters on the context's device
  Tokenizers tokenizers;
  /// The configuration of the run that trained it, as TOML (training::run_config).
  std::string run;
  std::string origin;  ///< the file, for messages
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

/// The kind of model that a checkpoint holds. Throws as load_model.
const ModelKind& kind_of_checkpoint(const std::filesystem::path& path);
const ModelKind& kind_of_container(const io::Container& container);

/// The tokenizers alone, without the weights going to a device.
Tokenizers load_tokenizers(const std::filesystem::path& path);

/// Takes memory for parameters in float32. Throws ErrorCode::kOutOfMemory, with their number, if
/// there is too little.
void allocate_parameters(const Context& context, layers::Parameters& parameters,
                         bool with_gradients);

/// What save_model writes; `run` is as LoadedModel::run. Waits for the device. Throws
/// ErrorCode::kNumeric for weights that are not finite.
io::Container model_container(const Context& context, const models::Model& model,
                              const Tokenizers& tokenizers, std::string_view run);

/// Writes model.safetensors as a folder, whole or not at all (io::AtomicDirectory): float32
/// tensors, configuration, tokenizers. Waits for the device. Throws ErrorCode::kIo if the disk
/// refuses; the folder that was there before is then in place.
void save_model(const Context& context, const std::filesystem::path& directory,
                const models::Model& model, const Tokenizers& tokenizers, std::string_view run);

}  // namespace sluice::model_files
