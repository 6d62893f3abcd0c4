#include "interchange/read_source.h"

#include <array>
#include <span>
#include <string_view>

#include "base/check.h"
#include "interchange/arrays/array_map.h"
#include "interchange/arrays/named_arrays.h"
#include "interchange/keras/keras_reader.h"
#include "interchange/onnx/onnx_reader.h"
#include "interchange/paddle/paddle_reader.h"
#include "interchange/tensorflow/checkpoint_reader.h"
#include "interchange/tensorflow/graph_reader.h"
#include "interchange/torch/torch_reader.h"
#include "io/file.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;

using Keys = std::span<const std::string_view>;

// All keys that readers look for: ReadOptions::find() takes no other.
constexpr std::array<std::string_view, 7> kTensorKeys{
    "embedding", "ignore", "nonlinearity", "order", "output", "pooling", "target"};
constexpr std::array<std::string_view, 4> kKerasKeys{"activation", "hard_sigmoid_slope",
                                                     "recurrent_activation", "reset_after"};
constexpr std::array<std::string_view, 16> kTensorflowKeys{
    "activation",  "backward",          "embedding",     "forget_bias",  "ignore",        "lstm",
    "opaque_cell", "opaque_directions", "opaque_hidden", "opaque_input", "opaque_layers", "order",
    "output",      "output_bias",       "pooling",       "rnn"};
constexpr std::array<std::string_view, 1> kOnnxKeys{"output"};
constexpr std::array<std::string_view, 2> kPaddleKeys{"output", "params"};

Keys keys_of(SourceFormat format) {
  switch (format) {
    case SourceFormat::kSafetensors:
    case SourceFormat::kTorch:
    case SourceFormat::kNpz:
    case SourceFormat::kNpy:
    case SourceFormat::kPickle:
      return kTensorKeys;
    case SourceFormat::kKeras:
      return kKerasKeys;
    case SourceFormat::kTensorflowCheckpoint:
    case SourceFormat::kTensorflowGraph:
    case SourceFormat::kSavedModel:
      return kTensorflowKeys;
    case SourceFormat::kOnnx:
      return kOnnxKeys;
    case SourceFormat::kPaddle:
      return kPaddleKeys;
    case SourceFormat::kSluice:
      break;
  }
  return {};
}

SourceModel read_arrays(const NamedArrays& arrays, const ReadOptions& options) {
  return options.map.empty() ? read_torch(arrays, options) : read_mapped(arrays, options);
}

/// The checkpoint that the file "checkpoint" of a folder names last; other paths stay.
fs::path newest_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  constexpr std::uint64_t kLargest = 1 << 20;
  constexpr std::string_view kKey = "model_checkpoint_path: \"";
  const fs::path list = path / "checkpoint";
  const std::string text = io::read_file(list, kLargest);
  const std::size_t key = text.find(kKey);
  const std::size_t begin = key + kKey.size();
  const std::size_t end = key == std::string::npos ? key : text.find('"', begin);
  if (end == std::string::npos) {
    base::fail(ErrorCode::kFormat, "'{}' names no checkpoint; give the prefix of one",
               list.native());
  }
  // Its folder may have been moved since.
  const fs::path named = text.substr(begin, end - begin);
  return path / named.filename();
}

}  // namespace

SourceModel read_by_format(const fs::path& path, SourceFormat format, const ReadOptions& options) {
  switch (format) {
    case SourceFormat::kSafetensors:
      return read_arrays(open_safetensors_arrays(path), options);
    case SourceFormat::kTorch:
      return read_arrays(open_torch_arrays(path), options);
    case SourceFormat::kNpz:
      return read_arrays(open_npz_arrays(path), options);
    case SourceFormat::kNpy:
      return read_arrays(open_npy_array(path), options);
    case SourceFormat::kPickle:
      return read_arrays(open_pickle_arrays(path), options);
    case SourceFormat::kKeras:
      return read_keras(path, options);
    case SourceFormat::kTensorflowCheckpoint:
      return read_tensorflow_checkpoint(newest_checkpoint(path), options);
    case SourceFormat::kTensorflowGraph:
    case SourceFormat::kSavedModel:
      return read_tensorflow_graph(path, options);
    case SourceFormat::kOnnx:
      return read_onnx_model(path, options);
    case SourceFormat::kPaddle:
      return read_paddle(path, options);
    case SourceFormat::kSluice:
      break;
  }
  base::fail(ErrorCode::kInvalidArgument, "'{}' is {}, not another program's", path.native(),
             describe(format));
}

SourceModel read_source(const fs::path& path, SourceFormat format, ReadOptions& options) {
  const bool has_arrays = format == SourceFormat::kSafetensors || format == SourceFormat::kTorch ||
                          format == SourceFormat::kNpz || format == SourceFormat::kNpy ||
                          format == SourceFormat::kPickle;
  SLUICE_CHECK(options.map.empty() || has_arrays, "--map is for plain arrays; '{}' is {}",
               path.native(), describe(format));
  options.limit(describe(format), options.map.empty() ? keys_of(format) : Keys());
  SourceModel model = read_by_format(path, format, options);
  options.require_all_used();
  return model;
}

}  // namespace sluice::interchange
