#include "io/formats/torch/torch_writer.h"

#include <limits>
#include <string>

#include "io/formats/strided_view.h"
#include "io/formats/zip_writer.h"
#include "io/little_endian.h"

namespace sluice::io::formats {
namespace {

std::string_view storage_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "DoubleStorage";
    case DType::kFloat32:
      return "FloatStorage";
    case DType::kBFloat16:
      return "BFloat16Storage";
    case DType::kFloat16:
      return "HalfStorage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kInt32:
      return "IntStorage";
    case DType::kUInt8:
      return "ByteStorage";
    case DType::kInt8:
      break;
  }
  return "CharStorage";
}

/// A pickle of protocol 2.
class StateDictPickle {
 public:
  StateDictPickle() {
    bytes_ = "\x80\x02";
    global("collections", "OrderedDict");
    bytes_ += ")R(";
  }

  void add(const std::string& name, const HostTensor& tensor, const std::string& key) {
    text(name);
    global("torch._utils", "_rebuild_tensor_v2");
    bytes_ += "((";
    text("storage");
    global("torch", storage_of(tensor.dtype));
    text(key);
    text("cpu");
    number(tensor.shape.element_count());
    bytes_ += "tQ";
    number(0);  // offset
    const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    numbers(sizes);
    numbers(row_major(sizes));
    bytes_ += "\x89";  // requires no gradient
    global("collections", "OrderedDict");
    bytes_ += ")RtR";  // no hooks; the arguments end; the call
  }

  std::string finish() && { return std::move(bytes_ += "u."); }

 private:
  void global(std::string_view module, std::string_view name) {
    bytes_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void text(std::string_view content) {
    bytes_ += 'X';
    append_little_endian(bytes_, content.size(), 4);
    bytes_ += content;
  }
  void number(std::int64_t value) {
    if (value <= std::numeric_limits<std::int32_t>::max()) {
      bytes_ += 'J';
      append_little_endian(bytes_, static_cast<std::uint64_t>(value), 4);
    } else {
      bytes_ += "\x8a\x08";
      append_little_endian(bytes_, static_cast<std::uint64_t>(value), 8);
    }
  }
  void numbers(const std::vector<std::int64_t>& values) {
    bytes_ += '(';
    for (const std::int64_t value : values) number(value);
    bytes_ += 't';
  }

  std::string bytes_;
};

}  // namespace

void write_torch_state_dict(const std::filesystem::path& path, const TensorTable& tensors) {
  const std::string folder = "archive/";
  StateDictPickle pickle;
  std::size_t key = 0;
  for (const auto& [name, tensor] : tensors) pickle.add(name, tensor, std::to_string(key++));
  ZipWriter zip(path);
  zip.add(folder + "data.pkl", std::move(pickle).finish());
  zip.add(folder + "byteorder", "little");
  key = 0;
  for (const auto& entry : tensors) {
    zip.add(folder + "data/" + std::to_string(key++), std::span(entry.second.data));
  }
  zip.add(folder + "version", "3\n");
  zip.finish();
}

}  // namespace sluice::io::formats
