#include "io/formats/onnx/onnx_tensor.h"

#include <charconv>

#include "base/check.h"

namespace sluice::io::formats {
namespace {

/// Far more than any operator takes.
constexpr std::size_t kMostAxes = 254;

std::uint64_t parse_number(const ProtoReader& reader, const std::string& key,
                           const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || text.empty()) {
    reader.refuse("has external data whose {} is no number", key);
  }
  return number;
}

/// Other keys, such as a checksum, are left alone.
void read_external(ProtoReader& reader, OnnxExternalData& external) {
  const auto [key, value] = read_onnx_pair(reader.message("external data entry"));
  if (key == "location") external.location = value;
  if (key == "offset") external.offset = parse_number(reader, key, value);
  if (key == "length") external.length = parse_number(reader, key, value);
}

/// The parts of a TensorProto that come before its values.
struct TensorHead {
  std::int32_t type = 0;
  bool is_external = false;
  std::optional<std::string_view> raw;
  OnnxExternalData external;
};

TensorHead read_tensor_head(ProtoReader reader, OnnxTensor& tensor) {
  TensorHead head;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        reader.each_varint([&](std::int64_t size) { tensor.sizes.push_back(size); });
        if (tensor.sizes.size() > kMostAxes) reader.refuse("has more than {} axes", kMostAxes);
        break;
      case 2:
        head.type = reader.int32();
        break;
      case 3:
        reader.refuse_unsupported("is a segment of a tensor, which is not read");
      case 8:
        tensor.name = reader.text();
        break;
      case 9:
        head.raw = reader.bytes();
        break;
      case 13:
        read_external(reader, head.external);
        break;
      case 14:
        head.is_external = reader.int64() == 1;
    }
  }
  return head;
}

OnnxTensor read_onnx_tensor(ProtoReader reader) {
  OnnxTensor tensor;
  TensorHead head = read_tensor_head(reader, tensor);
  tensor.type = find_type(onnx_types(), head.type);
  if (head.type == 0) reader.refuse("has no element type");
  if (tensor.type == nullptr) {
    reader.refuse_unsupported("has the element type {}, which is unknown here", head.type);
  }
  const std::uint32_t field = tensor.type->value_field;
  if (head.is_external) {
    checked_count(tensor.sizes, describe_tensor(reader.file(), tensor.name));
    tensor.external = std::move(head.external);
    return tensor;
  }
  if (head.raw && tensor.type->bytes > 0) {
    const auto* begin = reinterpret_cast<const std::byte*>(head.raw->data());
    tensor.data.assign(begin, begin + head.raw->size());
  } else if (!head.raw && field != 0) {
    if (tensor.type->is_string) reserve_for(reader, field, tensor.strings);
    while (reader.next()) {
      if (reader.tag() == field) append_values(reader, tensor);
    }
  }
  check_values(tensor, reader.file(), false);
  return tensor;
}

}  // namespace

std::pair<std::string, std::string> read_onnx_pair(ProtoReader reader) {
  std::pair<std::string, std::string> pair;
  while (reader.next()) {
    if (reader.tag() == 1) pair.first = reader.text();
    if (reader.tag() == 2) pair.second = reader.text();
  }
  if (pair.first.empty()) reader.refuse("has no key");
  return pair;
}

std::vector<OnnxTensor> read_onnx_tensors(ProtoReader reader, std::uint32_t field) {
  std::vector<OnnxTensor> tensors;
  reserve_for(reader, field, tensors);
  while (reader.next()) {
    if (reader.tag() == field) tensors.push_back(read_onnx_tensor(reader.message("TensorProto")));
  }
  return tensors;
}

OnnxTensor to_onnx(const HostTensor& tensor, std::string name) {
  return {to_stored(tensor, onnx_types(), std::move(name)), {}};
}

}  // namespace sluice::io::formats
