#include "io/formats/number_type.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace sluice::io::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they stand");

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

void swap_bytes(std::span<std::byte> numbers, std::size_t bytes) {
  for (std::size_t at = 0; at < numbers.size(); at += bytes) {
    const auto number = numbers.subspan(at, bytes);
    std::reverse(number.begin(), number.end());
  }
}

template <typename From, typename To>
void widen(std::span<const std::byte> from, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    From number;
    std::memcpy(&number, from.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(number);
  }
}

/// Numbers of this machine's byte order to a type that holds them all.
void convert(const NumberType& type, std::span<const std::byte> from, HostTensor& to) {
  const bool is_signed = type.kind == NumberKind::kSigned;
  if (type.bytes == base::size_of(to.dtype)) {
    std::copy(from.begin(), from.end(), to.data.begin());
  } else if (type.bytes == 2) {
    const auto values = to.values<std::int32_t>();
    is_signed ? widen<std::int16_t>(from, values) : widen<std::uint16_t>(from, values);
  } else {
    SLUICE_ASSERT(type.bytes == 4 && !is_signed);
    widen<std::uint32_t>(from, to.values<std::int64_t>());
  }
}

void require_int64(const HostTensor& tensor, std::string_view where) {
  for (const std::int64_t value : tensor.values<std::int64_t>()) {
    if (value < 0) {
      base::fail(ErrorCode::kUnsupported, "{}: its uint64 {} is more than an int64 holds", where,
                 static_cast<std::uint64_t>(value));
    }
  }
}

}  // namespace

std::optional<NumberType> number_type(NumberKind kind, std::size_t bytes, bool is_big_endian) {
  const bool is_power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  const bool is_bool = kind == NumberKind::kBool, is_bfloat16 = kind == NumberKind::kBFloat16;
  if (!is_power || (kind == NumberKind::kFloat && bytes == 1) || (is_bool && bytes != 1) ||
      (is_bfloat16 && bytes != 2)) {
    return std::nullopt;
  }
  return NumberType{kind, bytes, is_big_endian && bytes > 1};
}

std::string name_of(const NumberType& type) {
  switch (type.kind) {
    case NumberKind::kBool:
      return "bool";
    case NumberKind::kBFloat16:
      return "bfloat16";
    case NumberKind::kFloat:
      return "float" + std::to_string(8 * type.bytes);
    case NumberKind::kSigned:
      return "int" + std::to_string(8 * type.bytes);
    case NumberKind::kUnsigned:
      break;
  }
  return "uint" + std::to_string(8 * type.bytes);
}

DType dtype_for(const NumberType& type) {
  switch (type.kind) {
    case NumberKind::kBool:
      return DType::kUInt8;
    case NumberKind::kBFloat16:
      return DType::kBFloat16;
    case NumberKind::kFloat:
      return type.bytes == 2   ? DType::kFloat16
             : type.bytes == 4 ? DType::kFloat32
                               : DType::kFloat64;
    case NumberKind::kSigned:
      return type.bytes == 1 ? DType::kInt8 : type.bytes == 8 ? DType::kInt64 : DType::kInt32;
    case NumberKind::kUnsigned:
      break;
  }
  return type.bytes == 1 ? DType::kUInt8 : type.bytes == 2 ? DType::kInt32 : DType::kInt64;
}

std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> sizes, std::size_t element) {
  std::uint64_t bytes = element;
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    is_empty = is_empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > kMostBytes / factor) return std::nullopt;
    bytes *= factor;
  }
  return is_empty ? 0 : bytes;
}

HostTensor tensor_of(const NumberType& type, std::span<const std::int64_t> sizes,
                     std::span<const std::byte> bytes, std::string_view where) {
  if (sizes.size() > Shape::kMaxRank) {
    base::fail(ErrorCode::kUnsupported, "{}: it has {} axes; at most {} are read", where,
               sizes.size(), Shape::kMaxRank);
  }
  SLUICE_ASSERT(bytes_of(sizes, type.bytes) == bytes.size());
  HostTensor tensor = HostTensor::make(dtype_for(type), Shape(sizes));
  if (type.is_big_endian) {
    std::vector<std::byte> swapped(bytes.begin(), bytes.end());
    swap_bytes(swapped, type.bytes);
    convert(type, swapped, tensor);
  } else {
    convert(type, bytes, tensor);
  }
  const bool is_uint64 = type.kind == NumberKind::kUnsigned && type.bytes == 8;
  if (is_uint64) require_int64(tensor, where);
  return tensor;
}

}  // namespace sluice::io::formats
