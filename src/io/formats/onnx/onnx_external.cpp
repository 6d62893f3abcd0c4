#include "base/check.h"
#include "io/formats/file_within.h"
#include "io/formats/onnx/onnx_file.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {

using base::fail;
namespace fs = std::filesystem;

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
  const File file = File::open(file_within(model_path.parent_path(), external.location, what));
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
