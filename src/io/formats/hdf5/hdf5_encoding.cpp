#include "io/formats/hdf5/hdf5_encoding.h"

#include "base/check.h"
#include "base/shape.h"
#include "io/little_endian.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint64_t kNoFreeBlock = 1;

/// Class and version 1, flags of 3 bytes, size of an element.
std::string type_start(std::uint8_t type_class, std::uint32_t flags, std::size_t bytes) {
  std::string type;
  append_number(type, 0x10U | type_class, 1);
  append_number(type, flags, 3);
  append_number(type, bytes, 4);
  return type;
}

std::string integer_type(std::size_t bytes, bool is_signed) {
  std::string type = type_start(0, is_signed ? 8 : 0, bytes);
  append_number(type, 0, 2);
  append_number(type, 8 * bytes, 2);
  return type;
}

struct FloatForm {
  std::size_t bytes;
  std::uint8_t exponent_bits, mantissa_bits;
};

std::string float_type(const FloatForm& form) {
  constexpr std::uint32_t kImpliedBit = 0x20;
  const std::size_t bits = 8 * form.bytes;
  const auto flags = static_cast<std::uint32_t>(kImpliedBit | (bits - 1) << 8);
  std::string type = type_start(1, flags, form.bytes);
  append_number(type, 0, 2);
  append_number(type, bits, 2);
  append_number(type, form.mantissa_bits, 1);  // where the exponent begins
  append_number(type, form.exponent_bits, 1);
  append_number(type, 0, 1);
  append_number(type, form.mantissa_bits, 1);
  append_number(type, (std::uint64_t{1} << (form.exponent_bits - 1)) - 1, 4);
  return type;
}

}  // namespace

void append_number(std::string& bytes, std::uint64_t number, std::size_t size) {
  append_little_endian(bytes, number, size);
}

void pad_to_8(std::string& bytes) { bytes.resize(base::align_up(bytes.size(), 8)); }

std::string hdf5_space(std::span<const std::int64_t> sizes) {
  std::string space;
  append_number(space, 1, 1);
  append_number(space, sizes.size(), 1);
  append_number(space, 0, 6);
  for (const std::int64_t size : sizes) append_number(space, static_cast<std::uint64_t>(size), 8);
  return space;
}

std::string hdf5_number_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return float_type({8, 11, 52});
    case DType::kFloat32:
      return float_type({4, 8, 23});
    case DType::kFloat16:
      return float_type({2, 5, 10});
    case DType::kBFloat16:
      break;
    case DType::kInt64:
    case DType::kInt32:
    case DType::kInt8:
      return integer_type(base::size_of(dtype), true);
    case DType::kUInt8:
      return integer_type(1, false);
  }
  base::fail(ErrorCode::kUnsupported,
             "HDF5 has no type for {}; convert the tensors to float32 before writing",
             base::name_of(dtype));
}

std::string hdf5_fixed_text_type(std::size_t bytes) {
  constexpr std::uint32_t kZeroPadded = 1;
  return type_start(3, kZeroPadded, bytes);
}

std::string hdf5_variable_text_type() {
  constexpr std::uint32_t kText = 1, kUtf8 = 1 << 8, kReferenceBytes = 16;
  return type_start(9, kText | kUtf8, kReferenceBytes) + type_start(3, 0, 1);
}

std::string hdf5_fill_value() {
  // Version 2; space is taken late, the value is written if it is set, and it is the default.
  std::string message("\2\2\2\1", 4);
  append_number(message, 0, 4);
  return message;
}

std::string hdf5_contiguous_layout(std::uint64_t address, std::uint64_t bytes) {
  std::string message("\3\1", 2);
  append_number(message, address, 8);
  append_number(message, bytes, 8);
  pad_to_8(message);
  return message;
}

std::string hdf5_attribute_start(std::string_view name, const std::string& type,
                                 const std::string& space) {
  std::string message("\1\0", 2);
  append_number(message, name.size() + 1, 2);
  append_number(message, type.size(), 2);
  append_number(message, space.size(), 2);
  message.append(name).push_back('\0');
  pad_to_8(message);
  message += type;
  pad_to_8(message);
  message += space;
  pad_to_8(message);
  return message;
}

std::string hdf5_local_heap(std::uint64_t bytes, std::uint64_t data_address) {
  std::string heap = "HEAP";
  append_number(heap, 0, 4);
  append_number(heap, bytes, 8);
  append_number(heap, kNoFreeBlock, 8);
  append_number(heap, data_address, 8);
  return heap;
}

}  // namespace sluice::io::formats
