#include "io/formats/pickle/numpy_pickle.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/check.h"
#include "io/formats/number_type.h"
#include "io/formats/strided_view.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using Items = std::span<const PickleValue* const>;

[[noreturn]] void refuse(std::string_view where, std::string_view reason) {
  base::fail(ErrorCode::kFormat, "{}: its NumPy array is damaged: {}", where, reason);
}

/// NumPy 2 has renamed numpy.core to numpy._core.
bool is_call_of_core(const PickleValue& value, std::string_view name) {
  return value.is_call_of("numpy.core." + std::string(name)) ||
         value.is_call_of("numpy._core." + std::string(name));
}

bool is_buffer_array(const PickleValue& value) {
  return is_call_of_core(value, "numeric._frombuffer");
}

/// The elements of a tuple of at least `least`; otherwise it throws.
Items tuple_of(const PickleValue* value, std::size_t least, std::string_view where) {
  if (value == nullptr || !value->is(PickleKind::kTuple) || value->items().size() < least) {
    refuse(where, "a tuple is missing or too short");
  }
  return value->items();
}

std::vector<std::int64_t> sizes_of(const PickleValue* value, std::string_view where) {
  std::vector<std::int64_t> sizes;
  for (const PickleValue* size : tuple_of(value, 0, where)) {
    if (!size->is(PickleKind::kInt)) refuse(where, "a size is no int");
    sizes.push_back(size->integer());
  }
  return sizes;
}

std::optional<NumberKind> kind_of(char letter) {
  switch (letter) {
    case 'f':
      return NumberKind::kFloat;
    case 'i':
      return NumberKind::kSigned;
    case 'u':
      return NumberKind::kUnsigned;
    case 'b':
      return NumberKind::kBool;
    default:
      return std::nullopt;
  }
}

/// numpy.dtype("f4", …) with the state (version, byte order, …).
NumberType type_of(const PickleValue* value, std::string_view where) {
  if (value == nullptr || !value->is_call_of("numpy.dtype")) refuse(where, "it has no dtype");
  const PickleValue* code = tuple_of(value->arguments(), 1, where)[0];
  if (!code->is_text()) refuse(where, "its dtype has no name");
  std::string_view name = code->text();
  bool is_big_endian = false;
  if (value->state() != nullptr) {
    const PickleValue* order = tuple_of(value->state(), 2, where)[1];
    is_big_endian = order->is_text() && order->text() == ">";
  }
  std::size_t bytes = 0;
  const auto kind = name.empty() ? std::nullopt : kind_of(name.front());
  if (!name.empty()) {
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), bytes);
    if (error != std::errc() || end != name.data() + name.size()) bytes = 0;
  }
  const auto type = kind ? number_type(*kind, bytes, is_big_endian) : std::nullopt;
  if (!type) {
    base::fail(ErrorCode::kUnsupported,
               "{}: its NumPy array has elements of type {}, which are not read; bool, integers "
               "and floats of 16 to 64 bits are",
               where, quote_name(name));
  }
  return *type;
}

/// Text whose characters are bytes, as protocols 0 to 2 write bytes: "…".encode("latin1").
std::string bytes_of_latin1(std::string_view text, std::string_view where) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      bytes += text[at];
      continue;
    }
    const auto second = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0U;
    if ((first & 0xfc) != 0xc0 || (second & 0xc0) != 0x80) refuse(where, "its bytes are malformed");
    bytes += static_cast<char>((first & 3U) << 6 | (second & 0x3fU));
    ++at;
  }
  return bytes;
}

std::string content_of(const PickleValue* value, std::string_view where) {
  if (value->is(PickleKind::kBytes) || value->is(PickleKind::kByteString)) {
    return std::string(value->text());
  }
  if (value->is_call_of("_codecs.encode")) {
    const PickleValue* text = tuple_of(value->arguments(), 1, where)[0];
    if (text->is_text()) return bytes_of_latin1(text->text(), where);
  }
  if (value->is_call_of("builtins.bytearray") || value->is_call_of("__builtin__.bytearray")) {
    const PickleValue* bytes = tuple_of(value->arguments(), 1, where)[0];
    if (bytes->is(PickleKind::kBytes)) return std::string(bytes->text());
  }
  // NumPy's older pickles of empty bytes.
  if (value->is_call_of("__builtin__.bytes") || value->is_call_of("builtins.bytes")) return {};
  base::fail(ErrorCode::kUnsupported,
             "{}: the elements of its NumPy array are Python objects, which are not read", where);
}

HostTensor assemble(const NumberType& type, std::vector<std::int64_t> sizes, bool is_column_major,
                    const std::string& content, std::string_view where) {
  if (bytes_of(sizes, type.bytes) != content.size()) {
    refuse(where, "its bytes are not as many as its shape and dtype need");
  }
  const auto bytes = std::as_bytes(std::span(content));
  if (!is_column_major || sizes.size() < 2) return tensor_of(type, sizes, bytes, where);
  StridedView view{std::move(sizes), {}, 0};
  view.strides = column_major(view.sizes);
  std::vector<std::byte> dense(bytes.size());
  copy_dense(view, type.bytes, bytes, dense);
  return tensor_of(type, view.sizes, dense, where);
}

}  // namespace

bool is_numpy_array(const PickleValue& value) {
  return is_call_of_core(value, "multiarray._reconstruct") || is_buffer_array(value);
}

bool is_numpy_scalar(const PickleValue& value) {
  return is_call_of_core(value, "multiarray.scalar");
}

HostTensor tensor_of_numpy(const PickleValue& value, std::string_view where) {
  if (is_numpy_scalar(value)) {
    const Items parts = tuple_of(value.arguments(), 2, where);
    return assemble(type_of(parts[0], where), {}, false, content_of(parts[1], where), where);
  }
  if (is_buffer_array(value)) {
    const Items parts = tuple_of(value.arguments(), 4, where);
    const bool is_column_major = parts[3]->is_text() && parts[3]->text() == "F";
    return assemble(type_of(parts[1], where), sizes_of(parts[2], where), is_column_major,
                    content_of(parts[0], where), where);
  }
  const Items parts = tuple_of(value.state(), 5, where);
  const bool is_column_major = parts[3]->is(PickleKind::kBool)  ? parts[3]->truth()
                               : parts[3]->is(PickleKind::kInt) ? parts[3]->integer() != 0
                                                                : false;
  return assemble(type_of(parts[2], where), sizes_of(parts[1], where), is_column_major,
                  content_of(parts[4], where), where);
}

}  // namespace sluice::io::formats
