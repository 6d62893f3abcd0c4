#include "io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/suggest.h"
#include "io/atomic_directory.h"
#include "io/safetensors.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;
using base::fail;

/// What tells the files apart.
struct Kind {
  std::string_view name;       ///< value of sluice_kind
  std::string_view text_key;   ///< metadata key of Container::text
  std::string_view file_name;  ///< in a checkpoint folder; empty: it isn't part of one
  std::string_view held;       ///< for messages, what such a file holds
  std::string_view wanted;     ///< for messages, what to give where one is wanted
};

constexpr Kind kModel{"model", "config", kModelFileName, "the weights of a model",
                      "a checkpoint folder, its model.safetensors or the folder of a training run"};
constexpr Kind kState{"training_state", "state", kStateFileName, "where a training run stands",
                      "the last/ of a training run, or start another run from weights alone "
                      "(training.init_from)"};
constexpr Kind kStream{"stream_state", "stream", "", "a state that --save-state or save() wrote",
                       "a file that --save-state or save() wrote"};
constexpr Kind kStreamBytes{kStream.name, kStream.text_key, "", kStream.held,
                            "what this model gave as its state"};

/// "the weights of a model", "'other'"
std::string held_by(std::string_view name) {
  for (const Kind& kind : {kModel, kState, kStream}) {
    if (kind.name == name) return std::string(kind.held);
  }
  return quote_name(name);
}

/// Borrows the container's data.
SafetensorsWriter writer_of(const Container& container, const Kind& kind) {
  SafetensorsWriter writer;
  writer.set_metadata("sluice_container", std::to_string(kContainerVersion));
  writer.set_metadata("sluice_kind", std::string(kind.name));
  writer.set_metadata("model_revision", std::to_string(container.revision));
  writer.set_metadata(std::string(kind.text_key), container.text);
  for (const auto& [name, tensor] : container.tensors) {
    SLUICE_CHECK(tensor.dtype != DType::kUInt8,
                 "tensor {} is uint8, which a checkpoint keeps for blobs", quote_name(name));
    writer.add(name, tensor.dtype, tensor.shape, tensor.data);
  }
  for (const auto& [name, bytes] : container.blobs) {
    writer.add(name, DType::kUInt8, {static_cast<std::int64_t>(bytes.size())},
               std::as_bytes(std::span(bytes)));
  }
  return writer;
}

const std::string& require_metadata(const SafetensorsFile& file, std::string_view key) {
  const auto found = file.metadata().find(std::string(key));
  if (found == file.metadata().end()) {
    fail(ErrorCode::kFormat, "'{}' is no file of Sluice: its metadata has no '{}'",
         file.path().native(), key);
  }
  return found->second;
}

/// A version number of the metadata, at most `newest`.
int checked_version(const SafetensorsFile& file, std::string_view key, int newest) {
  const std::string& text = require_metadata(file, key);
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  // A number beyond int is just as surely newer.
  const bool newer = error == std::errc::result_out_of_range && text.front() != '-';
  if (newer || version > newest) {
    fail(ErrorCode::kFormat,
         "'{}' has {} {}, and this program knows up to {}: it was written by a newer Sluice",
         file.path().native(), key, quote_name(text), newest);
  }
  if (error != std::errc() || end != text.data() + text.size() || version < 1) {
    fail(ErrorCode::kFormat, "'{}': {} is {} instead of a number from 1 to {}",
         file.path().native(), key, quote_name(text), newest);
  }
  return version;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The file of a checkpoint folder, if it has one.
std::optional<fs::path> file_of_folder(const fs::path& folder, const Kind& kind) {
  recover_directory(folder);
  std::error_code ignored;
  if (!fs::exists(folder / kind.file_name, ignored)) return std::nullopt;
  return folder / kind.file_name;
}

void refuse_folds(const fs::path& folder) {
  const fs::path fold = folder / "fold-1";
  if (!is_folder(fold)) return;
  fail(ErrorCode::kNotFound,
       "'{}' holds the folds of a cross-validation, each a run of its own; name one of them, such "
       "as '{}'",
       folder.native(), fold.native());
}

fs::path resolve_file(const fs::path& path, const Kind& kind) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path;
  if (kind.file_name.empty()) {
    if (!is_folder(path)) return path;
    fail(ErrorCode::kFormat, "'{}' is a folder; give {}", path.native(), kind.wanted);
  }
  if (auto file = file_of_folder(path, kind)) return *file;
  if (!is_folder(path)) return path;
  if (kind.name == kModel.name) {
    for (const std::string_view part : {kBestFolderName, kLastFolderName}) {
      if (auto file = file_of_folder(path / part, kind)) return *file;
    }
    refuse_folds(path);
  }
  fail(ErrorCode::kNotFound, "'{}' has no {}; give {}", path.native(), kind.file_name, kind.wanted);
}

/// Refuses in words what isn't the kind of file at all: its header would begin with this byte.
void require_safetensors(const ByteSource& source, const Kind& kind) {
  constexpr std::uint64_t kFirst = 8;
  std::byte first{};
  if (source.size() > kFirst) source.read_at(kFirst, std::span(&first, 1));
  if (first == std::byte{'{'}) return;
  fail(ErrorCode::kFormat, "'{}' is not a safetensors file; give {}", source.path().native(),
       kind.wanted);
}

/// Opens what is of that kind; `revision` may be null.
SafetensorsFile open_container(ByteSource source, const Kind& kind, int* revision) {
  require_safetensors(source, kind);
  SafetensorsFile file = SafetensorsFile::open(std::move(source));
  checked_version(file, "sluice_container", kContainerVersion);
  const int found_revision = checked_version(file, "model_revision", kModelRevision);
  if (revision != nullptr) *revision = found_revision;
  const std::string& found = require_metadata(file, "sluice_kind");
  if (found != kind.name) {
    fail(ErrorCode::kFormat, "'{}' holds {}; give {}", file.path().native(), held_by(found),
         kind.wanted);
  }
  return file;
}

ByteSource open_file(const fs::path& path, const Kind& kind) {
  const fs::path resolved = resolve_file(path, kind);
  std::error_code ignored;
  if (fs::status(resolved, ignored).type() == fs::file_type::not_found) {
    fail(ErrorCode::kNotFound, "there is no '{}'; give {}", resolved.native(), kind.wanted);
  }
  return ByteSource(File::open(resolved));
}

Container read_container(ByteSource source, const Kind& kind) {
  Container container;
  const SafetensorsFile file = open_container(std::move(source), kind, &container.revision);
  container.origin = file.path().native();
  container.text = require_metadata(file, kind.text_key);
  for (const SafetensorsEntry& entry : file.tensors()) {
    if (entry.dtype != DType::kUInt8) {
      container.tensors.add(entry.name, file.read(entry.name));
      continue;
    }
    std::string bytes(static_cast<std::size_t>(entry.byte_size()), '\0');
    file.read(entry.name, std::as_writable_bytes(std::span(bytes)));
    container.blobs.emplace(entry.name, std::move(bytes));
  }
  return container;
}

Container read_container(const fs::path& path, const Kind& kind) {
  return read_container(open_file(path, kind), kind);
}

std::vector<std::string_view> names_of(const TensorTable& tensors) {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

}  // namespace

void write_model(const fs::path& path, const Container& model) {
  for (const auto& [name, tensor] : model.tensors) {
    const bool narrow = tensor.dtype == DType::kBFloat16 || tensor.dtype == DType::kInt8;
    SLUICE_CHECK(tensor.dtype == DType::kFloat32 || (narrow && model.revision >= 2),
                 "parameter {} is {}; a model file of revision {} holds canonical float32{}",
                 quote_name(name), base::name_of(tensor.dtype), model.revision,
                 model.revision >= 2 ? ", bfloat16 or int8" : "");
  }
  writer_of(model, kModel).write(path);
}

void write_state(const fs::path& path, const Container& state) {
  writer_of(state, kState).write(path);
}

void write_stream(const fs::path& path, const Container& stream) {
  writer_of(stream, kStream).write(path);
}

std::string stream_bytes(const Container& stream) { return writer_of(stream, kStream).bytes(); }

fs::path model_file(const fs::path& path) { return resolve_file(path, kModel); }

Container read_model(const fs::path& path) { return read_container(path, kModel); }

Container read_state(const fs::path& path) { return read_container(path, kState); }

Container read_stream(const fs::path& path) { return read_container(path, kStream); }

Container stream_of_bytes(std::string_view bytes) {
  return read_container(ByteSource(bytes, Container{}.origin), kStreamBytes);
}

DType narrowest_dtype(const fs::path& path) {
  DType narrowest = DType::kFloat32;
  const SafetensorsFile file = open_container(open_file(path, kModel), kModel, nullptr);
  for (const SafetensorsEntry& entry : file.tensors()) {
    if (!entry.dtype || *entry.dtype == DType::kUInt8) continue;
    if (base::size_of(*entry.dtype) < base::size_of(narrowest)) narrowest = *entry.dtype;
  }
  return narrowest;
}

void write_checkpoint(const fs::path& directory, const Container& model, const Container* state,
                      const WarningHandler* warnings) {
  AtomicDirectory folder(directory, warnings);
  write_model(folder.path() / kModelFileName, model);
  if (state != nullptr) write_state(folder.path() / kStateFileName, *state);
  folder.commit();
}

const HostTensor& require_tensor(const Container& container, std::string_view name,
                                 const Shape& shape, DType dtype) {
  const HostTensor* tensor = container.tensors.find(name);
  if (tensor == nullptr) {
    fail(ErrorCode::kFormat, "'{}' lacks the tensor {} of shape {}{}", container.origin,
         quote_name(name), shape.to_string(),
         base::did_you_mean(name, names_of(container.tensors)));
  }
  if (tensor->shape != shape) {
    fail(ErrorCode::kFormat, "'{}': tensor {} has shape {}, but the configuration asks for {}",
         container.origin, quote_name(name), tensor->shape.to_string(), shape.to_string());
  }
  if (tensor->dtype != dtype) {
    fail(ErrorCode::kFormat, "'{}': tensor {} is {} instead of {}", container.origin,
         quote_name(name), base::name_of(tensor->dtype), base::name_of(dtype));
  }
  return *tensor;
}

const std::string& require_blob(const Container& container, std::string_view name) {
  const auto found = container.blobs.find(std::string(name));
  if (found == container.blobs.end()) {
    fail(ErrorCode::kFormat, "'{}' lacks {}", container.origin, quote_name(name));
  }
  return found->second;
}

void refuse_other_tensors(const Container& container, std::span<const std::string_view> known) {
  for (const auto& [name, tensor] : container.tensors) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail(ErrorCode::kFormat,
         "'{}' has the tensor {} of shape {}, which its configuration has no use for{}",
         container.origin, quote_name(name), tensor.shape.to_string(),
         base::did_you_mean(name, known));
  }
}

}  // namespace sluice::io
