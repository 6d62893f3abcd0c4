#include "interchange/read_source.h"

#include "base/check.h"
#include "interchange/arrays/array_map.h"
#include "interchange/arrays/named_arrays.h"
#include "interchange/torch/torch_reader.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;

SourceModel read_arrays(const NamedArrays& arrays, const ReadOptions& options) {
  return options.map.empty() ? read_torch(arrays, options) : read_mapped(arrays, options);
}

SourceModel read_by_format(const fs::path& path, SourceFormat format, const ReadOptions& options) {
  switch (format) {
    case SourceFormat::kSafetensors:
      return read_arrays(open_safetensors_arrays(path), options);
    case SourceFormat::kTorch:
      return read_arrays(open_torch_arrays(path), options);
    case SourceFormat::kNpz:
      return read_arrays(open_npz_arrays(path), options);
    case SourceFormat::kPickle:
      return read_arrays(open_pickle_arrays(path), options);
    case SourceFormat::kKeras:
    case SourceFormat::kTensorflowCheckpoint:
    case SourceFormat::kTensorflowGraph:
    case SourceFormat::kSavedModel:
    case SourceFormat::kOnnx:
    case SourceFormat::kSluice:
      break;
  }
  base::fail(ErrorCode::kUnsupported, "'{}' is {}, which is read elsewhere", path.native(),
             describe(format));
}

}  // namespace

SourceModel read_source(const fs::path& path, SourceFormat format, const ReadOptions& options) {
  SourceModel model = read_by_format(path, format, options);
  options.require_all_used();
  return model;
}

}  // namespace sluice::interchange
