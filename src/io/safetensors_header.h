#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace sluice::io {

/// The longest header that the format allows, in bytes.
inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;
/// More axes than any dtype policy or kernel has a use for; bounds what a header can make us hold.
inline constexpr std::size_t kMostSafetensorsAxes = 32;

/// What a safetensors header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;            ///< as the file spells it: "F32"
  std::optional<base::DType> dtype;  ///< absent: known to the format, but not to Sluice
  std::vector<std::int64_t> sizes;   ///< axes, outermost first
  std::uint64_t begin = 0;           ///< bytes [begin, end) of the buffer behind the header
  std::uint64_t end = 0;

  std::uint64_t byte_size() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Parses and checks the JSON of a safetensors file: form, duplicate keys, dtypes, sizes, and that
/// the tensors cover the buffer of `buffer_size` bytes exactly, without holes or overlaps. Memory
/// taken is bounded by a small multiple of the header's length. Throws ErrorCode::kFormat with one
/// sentence that starts with `file`.
SafetensorsHeader parse_safetensors_header(std::string_view file, std::string_view json,
                                           std::uint64_t buffer_size);

/// The JSON that parse_safetensors_header reads, padded with spaces to a multiple of 8 bytes.
/// Names and metadata must be UTF-8 (ErrorCode::kInvalidArgument).
std::string format_safetensors_header(const SafetensorsHeader& header);

/// "F32" for kFloat32
std::string_view safetensors_name(base::DType dtype);

/// A name from a file for an error message: quoted, shortened, control characters replaced.
std::string quote_name(std::string_view name);

}  // namespace sluice::io
