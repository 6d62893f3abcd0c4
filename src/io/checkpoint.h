#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/host_tensor.h"
#include "sluice/warnings.h"

// A checkpoint folder:
//
//   model.safetensors            all that running the model takes
//   training_state.safetensors   all that resuming takes beside it
//
// Both are plain safetensors files that any reader of the format opens: named tensors, and in
// __metadata__ the container version, the model revision, which of the two it is, and one text
// (JSON or TOML). Blobs, such as tokenisers, are one-axis U8 tensors.

namespace sluice::io {

/// Raised when the layout of the files above changes.
inline constexpr int kContainerVersion = 1;
/// Raised when the meaning of a parameter's name, shape or layout or of the configuration changes.
/// 2: matrices may be stored in fewer bits; files without such ones stay at 1.
inline constexpr int kModelRevision = 2;

inline constexpr std::string_view kModelFileName = "model.safetensors";
inline constexpr std::string_view kStateFileName = "training_state.safetensors";

/// Checkpoint folders in that of a training run: the model of its best validation, and where it
/// stands.
inline constexpr std::string_view kBestFolderName = "best";
inline constexpr std::string_view kLastFolderName = "last";

/// The content of either file.
struct Container {
  /// The configuration (model), or step, data position, seeds and choices (training state).
  std::string text;
  /// Parameters, canonical float32 (model; in revision 2 also bfloat16, or int8 with scales), or
  /// optimiser moments and the like (state); not U8.
  TensorTable tensors;
  /// "tokenizer.source", "tokenizer.target", …: bytes of any kind. No name of a tensor.
  std::map<std::string, std::string> blobs;
  int revision = 1;
  /// Where it was read from, for messages.
  std::string origin = "(in memory)";
};

/// Write one file, whole or not at all (DurableFile). ErrorCode::kIo if the disk refuses,
/// kInvalidArgument if the content breaks the rules above.
void write_model(const std::filesystem::path& path, const Container& model);
void write_state(const std::filesystem::path& path, const Container& state);
/// Of samples to go on with: a file of its own, anywhere.
void write_stream(const std::filesystem::path& path, const Container& stream);
/// The bytes of that file.
std::string stream_bytes(const Container& stream);

/// The model's file that `path` names: itself, that of a checkpoint folder, or that of a training
/// run's folder, of whose checkpoints best/ comes before last/. Folders are recovered first
/// (recover_directory). Throws ErrorCode::kNotFound with what to give if there is none.
std::filesystem::path model_file(const std::filesystem::path& path);

/// Read one file; `path` is the file or the checkpoint folder that holds it, which is recovered
/// first, or of a model what model_file takes. Throws ErrorCode::kFormat for what is damaged, of
/// the other kind, or newer than this program (with both numbers), kNotFound if it is not there.
Container read_model(const std::filesystem::path& path);
Container read_state(const std::filesystem::path& path);
Container read_stream(const std::filesystem::path& path);
/// The same of stream_bytes().
Container stream_of_bytes(std::string_view bytes);

/// The dtype of the fewest bits among a model file's parameters, from its header alone; errors as
/// read_model.
DType narrowest_dtype(const std::filesystem::path& path);

/// Writes both files (`state` may be null) as one folder through AtomicDirectory, which is given
/// `warnings`.
void write_checkpoint(const std::filesystem::path& directory, const Container& model,
                      const Container* state, const WarningHandler* warnings = nullptr);

/// The tensor of that name, shape and dtype; throws ErrorCode::kFormat naming file, tensor and what
/// differs.
const HostTensor& require_tensor(const Container& container, std::string_view name,
                                 const Shape& shape, DType dtype = DType::kFloat32);
/// The blob of that name; throws ErrorCode::kFormat naming the file.
const std::string& require_blob(const Container& container, std::string_view name);
/// Throws ErrorCode::kFormat if there is a tensor whose name is not in `known`.
void refuse_other_tensors(const Container& container, std::span<const std::string_view> known);

}  // namespace sluice::io
