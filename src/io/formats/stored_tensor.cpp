#include "io/formats/stored_tensor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using base::fail;

constexpr std::uint64_t kLargestFill = std::uint64_t{16} << 20;

/// Whether an element of the type can hold the value. Types of 16 bits count as their bits.
bool fits(std::int64_t value, const ElementType& type) {
  if (type.bytes >= sizeof(value)) return true;
  const std::int64_t limit = std::int64_t{1} << (8 * type.bytes - (type.is_signed ? 1 : 0));
  return value >= (type.is_signed ? -limit : 0) && value < limit;
}

/// Typed floats and doubles are the fixed-width fields; every other number is a varint.
bool is_fixed(const ElementType& type) {
  return type.dtype == DType::kFloat32 || type.dtype == DType::kFloat64;
}

std::uint64_t held_values(const StoredTensor& tensor) {
  if (tensor.type->is_string) return tensor.strings.size();
  return tensor.type->bytes == 0 ? 0 : tensor.data.size() / tensor.type->bytes;
}

}  // namespace

std::uint64_t checked_count(std::span<const std::int64_t> sizes, std::string_view what) {
  // Without the zeros, so that no order of multiplying overflows.
  std::int64_t product = 1;
  bool overflows = false, is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail(ErrorCode::kFormat, "{} has an axis of the negative size {}", what, size);
    is_empty = is_empty || size == 0;
    if (size != 0) overflows = __builtin_mul_overflow(product, size, &product) || overflows;
  }
  // An element has at most 16 bytes.
  if (overflows || product > INT64_MAX / 16) {
    fail(ErrorCode::kFormat, "{} has sizes whose product overflows 64 bits", what);
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(product);
}

std::string describe_tensor(std::string_view file, std::string_view name) {
  return name.empty() ? fmt::format("'{}': a tensor", file)
                      : fmt::format("'{}': tensor {}", file, quote_name(name));
}

void append_values(ProtoReader& reader, StoredTensor& tensor) {
  const ElementType& type = *tensor.type;
  const auto append = [&](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    tensor.data.insert(tensor.data.end(), begin, begin + bytes);
  };
  if (type.is_string) {
    tensor.strings.push_back(reader.text());
  } else if (is_fixed(type)) {
    reader.each_fixed(type.bytes,
                      [&](std::string_view bytes) { append(bytes.data(), bytes.size()); });
  } else {
    reader.each_varint([&](std::int64_t value) {
      if (!fits(value, type)) reader.refuse("has the value {}, beyond {}", value, type.name);
      append(&value, type.bytes);
    });
  }
}

void check_values(const StoredTensor& tensor, std::string_view file, bool may_be_filled) {
  const std::string what = describe_tensor(file, tensor.name);
  const std::uint64_t count = checked_count(tensor.sizes, what);
  // Values that are not kept cannot be counted, nor read.
  if (tensor.type->bytes == 0 && !tensor.type->is_string) return;
  const std::uint64_t held = held_values(tensor);
  const bool is_whole = tensor.type->is_string || tensor.data.size() % tensor.type->bytes == 0;
  if (!is_whole || held > count || (held < count && !may_be_filled)) {
    fail(ErrorCode::kFormat,
         "{} holds {} values ({} bytes), but its sizes ask for {}; the file is damaged", what, held,
         tensor.data.size(), count);
  }
}

Shape to_shape(std::span<const std::int64_t> sizes, std::string_view what) {
  if (sizes.size() > Shape::kMaxRank) {
    fail(ErrorCode::kUnsupported, "{} has {} axes; at most {} are read", what, sizes.size(),
         Shape::kMaxRank);
  }
  return Shape(sizes);
}

HostTensor to_host(const StoredTensor& tensor, std::string_view file) {
  const std::string what = describe_tensor(file, tensor.name);
  if (!tensor.type->dtype) {
    fail(ErrorCode::kUnsupported, "{} has the element type {}, which Sluice does not read", what,
         tensor.type->name);
  }
  const std::size_t width = tensor.type->bytes;
  const std::uint64_t count = checked_count(tensor.sizes, what);
  const std::uint64_t missing = count - std::min(count, held_values(tensor));
  if (missing > kLargestFill / width) {
    fail(ErrorCode::kUnsupported,
         "{} repeats one value {} times; at most {} MiB of such a tensor are read", what, missing,
         kLargestFill >> 20);
  }
  HostTensor host = HostTensor::make(*tensor.type->dtype, to_shape(tensor.sizes, what));
  std::copy(tensor.data.begin(), tensor.data.end(), host.data.begin());
  if (tensor.data.empty()) return host;
  for (std::size_t at = tensor.data.size(); at < host.data.size(); ++at) {
    host.data[at] = host.data[at - width];
  }
  return host;
}

StoredTensor to_stored(const HostTensor& tensor, std::span<const ElementType> table,
                       std::string name) {
  const ElementType* type = find_type(table, tensor.dtype);
  SLUICE_ASSERT(type != nullptr);
  return {std::move(name), type, {tensor.shape.begin(), tensor.shape.end()}, tensor.data, {}};
}

const ElementType* find_type(std::span<const ElementType> table, std::int32_t number) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const ElementType& type) { return type.number == number; });
  return found == table.end() ? nullptr : &*found;
}

const ElementType* find_type(std::span<const ElementType> table, DType dtype) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const ElementType& type) { return type.dtype == dtype; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace sluice::io::formats
