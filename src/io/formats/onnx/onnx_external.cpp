#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/formats/onnx/onnx_file.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using base::fail;
namespace fs = std::filesystem;

/// The external file's own path, with every link followed, if it lies within the model's folder.
fs::path checked_location(const std::string& location, const fs::path& model_path,
                          const std::string& what) {
  const fs::path relative(location);
  const bool goes_up = std::find(relative.begin(), relative.end(), "..") != relative.end();
  const bool has_zero = location.find('\0') != std::string::npos;
  if (location.empty() || has_zero || relative.is_absolute() || goes_up) {
    fail(ErrorCode::kFormat,
         "{} has its values in {}, which is no plain path within the model's folder", what,
         quote_name(location));
  }
  std::error_code error;
  const fs::path parent = model_path.parent_path();
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, error);
  const fs::path file = error ? fs::path() : fs::canonical(folder / relative, error);
  if (error) {
    fail(ErrorCode::kNotFound,
         "{} has its values in {}, which cannot be found beside the model: {}", what,
         quote_name(location), error.message());
  }
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (end != folder.end()) {
    fail(ErrorCode::kFormat, "{} has its values in {}, which leads out of the model's folder", what,
         quote_name(location));
  }
  return file;
}

}  // namespace

HostTensor read_tensor(const OnnxTensor& tensor, const fs::path& model_path) {
  if (!tensor.external) return to_host(tensor, model_path.native());
  const std::string what = describe_tensor(model_path.native(), tensor.name);
  if (!tensor.type->dtype) {
    fail(ErrorCode::kUnsupported, "{} has the element type {}, which Sluice does not read", what,
         tensor.type->name);
  }
  const Shape shape = to_shape(tensor.sizes, what);
  const std::uint64_t bytes = checked_count(tensor.sizes, what) * tensor.type->bytes;
  const OnnxExternalData& external = *tensor.external;
  if (external.length.value_or(bytes) != bytes) {
    fail(ErrorCode::kFormat, "{} has {} bytes in {}, but its sizes ask for {}", what,
         *external.length, quote_name(external.location), bytes);
  }
  const File file = File::open(checked_location(external.location, model_path, what));
  const std::uint64_t size = file.size();
  if (external.offset > size || bytes > size - external.offset) {
    fail(ErrorCode::kFormat, "{} has {} bytes from byte {} on of {}, which has {}", what, bytes,
         external.offset, quote_name(external.location), size);
  }
  HostTensor host = HostTensor::make(*tensor.type->dtype, shape);
  file.read_at(external.offset, host.data);
  return host;
}

}  // namespace sluice::io::formats
