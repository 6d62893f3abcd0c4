#include "io/formats/tensorflow/tensorflow_types.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace sluice::io::formats {
namespace {

// Fields of TensorProto.
constexpr std::uint32_t kDType = 1, kShape = 2, kContent = 4;
constexpr std::uint32_t kFloats = 5, kDoubles = 6, kInts = 7, kStrings = 8, kInt64s = 10;
constexpr std::uint32_t kBools = 11, kHalves = 13, kUInt32s = 16, kUInt64s = 17;
constexpr std::int32_t kReference = 100;
/// TensorFlow's own limit.
constexpr std::size_t kMostAxes = 254;

constexpr std::array kTypes{
    ElementType{1, "DT_FLOAT", 4, DType::kFloat32, kFloats},
    ElementType{2, "DT_DOUBLE", 8, DType::kFloat64, kDoubles},
    ElementType{3, "DT_INT32", 4, DType::kInt32, kInts, false, true},
    ElementType{4, "DT_UINT8", 1, DType::kUInt8, kInts},
    ElementType{5, "DT_INT16", 2, {}, kInts, false, true},
    ElementType{6, "DT_INT8", 1, DType::kInt8, kInts, false, true},
    ElementType{7, "DT_STRING", 0, {}, kStrings, true},
    ElementType{8, "DT_COMPLEX64"},
    ElementType{9, "DT_INT64", 8, DType::kInt64, kInt64s, false, true},
    ElementType{10, "DT_BOOL", 1, {}, kBools},
    ElementType{11, "DT_QINT8"},
    ElementType{12, "DT_QUINT8"},
    ElementType{13, "DT_QINT32"},
    ElementType{14, "DT_BFLOAT16", 2, DType::kBFloat16, kHalves},
    ElementType{15, "DT_QINT16"},
    ElementType{16, "DT_QUINT16"},
    ElementType{17, "DT_UINT16", 2, {}, kInts},
    ElementType{18, "DT_COMPLEX128"},
    ElementType{19, "DT_HALF", 2, DType::kFloat16, kHalves},
    ElementType{20, "DT_RESOURCE"},
    ElementType{21, "DT_VARIANT"},
    ElementType{22, "DT_UINT32", 4, {}, kUInt32s},
    ElementType{23, "DT_UINT64", 8, {}, kUInt64s},
    ElementType{24, "DT_FLOAT8_E5M2"},
    ElementType{25, "DT_FLOAT8_E4M3FN"},
    ElementType{26, "DT_FLOAT8_E4M3FNUZ"},
    ElementType{27, "DT_FLOAT8_E4M3B11FNUZ"},
    ElementType{28, "DT_FLOAT8_E5M2FNUZ"},
    ElementType{29, "DT_INT4"},
    ElementType{30, "DT_UINT4"},
    ElementType{31, "DT_INT2"},
    ElementType{32, "DT_UINT2"},
    ElementType{33, "DT_FLOAT4_E2M1FN"},
};

const ElementType& known_type(const ProtoReader& reader, std::int32_t number) {
  const ElementType* type = find_type(kTypes, number);
  if (type == nullptr) {
    reader.refuse_unsupported("has the element type {}, which is unknown here", number);
  }
  return *type;
}

/// The bits of an element as a field of integers wants them.
std::int64_t widened(const ElementType& type, const std::byte* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, type.bytes);
  const std::uint64_t sign = std::uint64_t{1} << (8 * type.bytes - 1);
  if (type.is_signed && type.bytes < 8 && (bits & sign) != 0) bits |= ~(2 * sign - 1);
  return static_cast<std::int64_t>(bits);
}

/// Writes typed values, which may be fewer than the sizes say.
void write_values(protozero::pbf_writer& writer, const StoredTensor& tensor) {
  const ElementType& type = *tensor.type;
  for (std::size_t at = 0; at < tensor.data.size(); at += type.bytes) {
    const std::byte* element = tensor.data.data() + at;
    if (type.dtype == DType::kFloat32) {
      float value = 0;
      std::memcpy(&value, element, sizeof(value));
      writer.add_float(type.value_field, value);
    } else if (type.dtype == DType::kFloat64) {
      double value = 0;
      std::memcpy(&value, element, sizeof(value));
      writer.add_double(type.value_field, value);
    } else {
      writer.add_int64(type.value_field, widened(type, element));
    }
  }
}

}  // namespace

std::span<const ElementType> tensorflow_types() { return kTypes; }

std::string tensorflow_type_name(std::int32_t number) {
  const bool is_reference = number > kReference;
  const ElementType* type = find_type(kTypes, is_reference ? number - kReference : number);
  if (type == nullptr) return fmt::format("type {}", number);
  return std::string(type->name) + (is_reference ? "_REF" : "");
}

std::int32_t tensorflow_type_of(DType dtype) {
  const ElementType* type = find_type(kTypes, dtype);
  SLUICE_ASSERT(type != nullptr);
  return type->number;
}

TensorflowShape read_tensorflow_shape(ProtoReader reader) {
  TensorflowShape shape;
  if (reader.count(2) > kMostAxes) reader.refuse("has more than {} axes", kMostAxes);
  reserve_for(reader, 2, shape.sizes);
  while (reader.next()) {
    if (reader.tag() == 3) shape.is_known_rank = !reader.boolean();
    if (reader.tag() != 2) continue;
    std::int64_t size = 0;
    ProtoReader axis = reader.message("Dim");
    while (axis.next()) {
      if (axis.tag() == 1) size = axis.int64();
    }
    if (size < -1) reader.refuse("has an axis of the negative size {}", size);
    shape.sizes.push_back(size);
  }
  return shape;
}

void write_tensorflow_shape(protozero::pbf_writer& parent, std::uint32_t field,
                            const TensorflowShape& shape) {
  // The writer drops a message without fields, but a scalar's shape is one.
  if (shape.is_known_rank && shape.sizes.empty()) return parent.add_message(field, "", 0);
  protozero::pbf_writer writer(parent, field);
  if (!shape.is_known_rank) writer.add_bool(3, true);
  for (const std::int64_t size : shape.sizes) {
    protozero::pbf_writer axis(writer, 2);
    axis.add_int64(1, size);
  }
}

void read_tensorflow_values(ProtoReader reader, StoredTensor& tensor) {
  const std::uint32_t field = tensor.type->value_field;
  if (tensor.type->is_string) reserve_for(reader, field, tensor.strings);
  while (reader.next()) {
    if (field != 0 && reader.tag() == field) append_values(reader, tensor);
  }
}

StoredTensor read_tensorflow_tensor(ProtoReader reader) {
  StoredTensor tensor;
  std::string_view content;
  std::int32_t number = 0;
  bool is_known = true;
  for (ProtoReader fields = reader; fields.next();) {
    if (fields.tag() == kDType) number = fields.int32();
    if (fields.tag() == kContent) content = fields.bytes();
    if (fields.tag() != kShape) continue;
    TensorflowShape shape = read_tensorflow_shape(fields.message("TensorShapeProto"));
    is_known = shape.is_known_rank;
    tensor.sizes = std::move(shape.sizes);
  }
  tensor.type = &known_type(reader, number);
  if (!is_known) reader.refuse("has a shape of unknown rank, which no tensor has");
  if (content.empty()) {
    read_tensorflow_values(reader, tensor);
    check_values(tensor, reader.file(), true);
  } else if (tensor.type->bytes > 0) {
    const auto* begin = reinterpret_cast<const std::byte*>(content.data());
    tensor.data.assign(begin, begin + content.size());
    check_values(tensor, reader.file(), false);
  }
  return tensor;
}

void write_tensorflow_tensor(protozero::pbf_writer writer, const StoredTensor& tensor) {
  const ElementType& type = *tensor.type;
  if (type.bytes == 0 && !type.is_string) {
    base::fail(ErrorCode::kUnsupported, "a tensor of type {} cannot be written", type.name);
  }
  writer.add_enum(kDType, type.number);
  write_tensorflow_shape(writer, kShape, {true, tensor.sizes});
  for (const std::string& value : tensor.strings) writer.add_bytes(kStrings, value);
  if (tensor.data.empty()) return;
  const std::uint64_t count = checked_count(tensor.sizes, "a tensor to write");
  if (tensor.data.size() == count * type.bytes) {
    writer.add_bytes(kContent, reinterpret_cast<const char*>(tensor.data.data()),
                     tensor.data.size());
  } else {
    write_values(writer, tensor);
  }
}

}  // namespace sluice::io::formats
