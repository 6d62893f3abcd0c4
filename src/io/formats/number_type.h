#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/host_tensor.h"

namespace sluice::io::formats {

enum class NumberKind : std::uint8_t { kFloat, kBFloat16, kSigned, kUnsigned, kBool };

/// How a file stores a number: float of 2, 4 or 8 bytes, integer of 1, 2, 4 or 8 bytes, bfloat16 of
/// 2 bytes, bool of 1 byte.
struct NumberType {
  NumberKind kind = NumberKind::kFloat;
  std::size_t bytes = 4;
  bool is_big_endian = false;

  bool operator==(const NumberType&) const = default;
};

/// The type of a kind and a size; empty if there is none.
std::optional<NumberType> number_type(NumberKind kind, std::size_t bytes,
                                      bool is_big_endian = false);
/// "uint16", "bfloat16", "bool"
std::string name_of(const NumberType& type);
/// The type of HostTensor that holds every value: bool becomes uint8; int16 and uint16 become
/// int32; uint32 and uint64 become int64.
DType dtype_for(const NumberType& type);

/// The bytes of a dense array; empty if a size is negative or if a file could not hold it even with
/// its empty axes counted as 1 (beyond 2^62 bytes).
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> sizes, std::size_t element);

/// A tensor of numbers as a file stores them, row-major. `bytes` must be just those of `sizes`.
/// Throws ErrorCode::kUnsupported, with a sentence that begins with `where`, for more axes than
/// Shape has and for a uint64 beyond int64.
HostTensor tensor_of(const NumberType& type, std::span<const std::int64_t> sizes,
                     std::span<const std::byte> bytes, std::string_view where);

}  // namespace sluice::io::formats
