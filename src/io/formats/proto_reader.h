#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/byte_source.h"

namespace sluice::io::formats {

/// Walks the fields of one protobuf message from an untrusted file. Every access checks the field's
/// wire type and that its bytes are there; nesting ends at kDeepest messages. Errors are
/// ErrorCode::kFormat and name the file, the message's type and the byte where it begins. Takes no
/// memory.
///
///   while (reader.next()) {
///     switch (reader.tag()) {
///       case 1: name = reader.text(); break;
///     }
///   }
///
/// A field that is not read is skipped by the next next().
class ProtoReader {
 public:
  /// The limit of protobuf's own parsers.
  static constexpr int kDeepest = 100;

  /// Borrows all three. `message` is the type's name, such as "GraphDef".
  ProtoReader(std::string_view bytes, std::string_view file, const char* message)
      : ProtoReader(bytes, file, message, bytes.data(), 1) {}

  /// Goes to the next field; false at the message's end.
  bool next();
  /// The field's number.
  std::uint32_t tag() const { return reader_.tag(); }
  bool is_varint() const { return reader_.wire_type() == protozero::pbf_wire_type::varint; }
  bool is_bytes() const {
    return reader_.wire_type() == protozero::pbf_wire_type::length_delimited;
  }

  std::int64_t int64();
  /// As protobuf does, takes the low 32 bits.
  std::int32_t int32() { return static_cast<std::int32_t>(int64()); }
  bool boolean() { return int64() != 0; }
  float float32();
  std::uint32_t fixed32();
  /// Borrows from the file's bytes.
  std::string_view bytes();
  std::string text() { return std::string(bytes()); }
  /// A reader of the message that the field holds, of type `message`.
  ProtoReader message(const char* message);

  /// Calls `each` with every number of a repeated varint field, packed or not.
  template <typename Each>
  void each_varint(Each&& each) {
    if (is_varint()) return each(int64());
    std::string_view packed = bytes();
    while (!packed.empty()) each(take_varint(packed));
  }
  /// Calls `each` with the little-endian bytes of a repeated field of numbers of `width` bytes (4
  /// or 8): all of them if it is packed, else of one.
  template <typename Each>
  void each_fixed(std::size_t width, Each&& each) {
    if (is_bytes()) return each(checked_packed(width));
    const std::uint64_t value = fixed(width);
    each(std::string_view(reinterpret_cast<const char*>(&value), width));
  }

  /// The number of fields of this number in the whole message: what a vector may reserve.
  std::size_t count(std::uint32_t tag) const;

  /// Refuses what the message says: "'m.onnx': the NodeProto at byte 7 <sentence>".
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kFormat, fmt::format(format, std::forward<Args>(args)...));
  }
  /// The same with ErrorCode::kUnsupported, for content that is legal.
  template <typename... Args>
  [[noreturn]] void refuse_unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string_view file() const { return file_; }

 private:
  ProtoReader(std::string_view bytes, std::string_view file, const char* message,
              const char* file_begin, int depth)
      : reader_(bytes.data(), bytes.size()),
        bytes_(bytes),
        file_(file),
        message_(message),
        file_begin_(file_begin),
        depth_(depth) {}

  template <typename Call>
  auto guarded(Call&& call) const;
  template <typename Call>
  auto value(protozero::pbf_wire_type type, Call&& call);
  [[noreturn]] void fail(ErrorCode code, const std::string& sentence) const;
  std::int64_t take_varint(std::string_view& packed) const;
  std::string_view checked_packed(std::size_t width);
  std::uint64_t fixed(std::size_t width);

  protozero::pbf_reader reader_;
  std::string_view bytes_;
  std::string_view file_;
  const char* message_;
  const char* file_begin_;
  int depth_;
  bool unread_ = false;
};

/// Appends the numbers of a repeated float or double field.
template <typename T>
void append_fixed(ProtoReader& reader, std::vector<T>& values) {
  reader.each_fixed(sizeof(T), [&](std::string_view bytes) {
    const std::size_t before = values.size();
    values.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data() + before, bytes.data(), bytes.size());
  });
}

/// Reserves room for the fields of number `tag`, so that a growing vector never holds two copies.
template <typename T>
void reserve_for(const ProtoReader& reader, std::uint32_t tag, std::vector<T>& values) {
  values.reserve(values.size() + reader.count(tag));
}

/// The whole of a source that holds one protobuf message. More than 2 GiB, the limit of protobuf,
/// is refused (ErrorCode::kFormat).
std::string read_message_bytes(const ByteSource& source);

/// Refuses to write more than that (ErrorCode::kUnsupported).
void check_message_size(std::string_view bytes);

/// Whether a file looks like protobuf's text format: nothing but printable characters and white
/// space at its beginning. A binary message of more than a few bytes has others.
bool looks_like_text(std::string_view bytes);

}  // namespace sluice::io::formats
