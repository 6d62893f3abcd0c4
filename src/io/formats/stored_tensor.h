#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/proto_reader.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// An element type as a format numbers and names it. The tables of TensorFlow and ONNX consist of
/// these.
struct ElementType {
  std::int32_t number = 0;
  std::string_view name;            ///< "DT_FLOAT" or "FLOAT"
  std::size_t bytes = 0;            ///< of an element; 0: the values are not kept, or are strings
  std::optional<DType> dtype = {};  ///< absent: HostTensor has no such type
  std::uint32_t value_field = 0;    ///< the TensorProto field of typed values; 0: there is none
  bool is_string = false;
  bool is_signed = false;  ///< of integers
};

/// A tensor as a TensorProto of TensorFlow or ONNX holds it. The values of every type with whole
/// bytes are kept, also of types that HostTensor lacks.
struct StoredTensor {
  std::string name;                   ///< empty in TensorFlow
  const ElementType* type = nullptr;  ///< an entry of the format's table, never null
  std::vector<std::int64_t> sizes;    ///< axes, outermost first
  /// Row-major and little-endian. TensorFlow may hold fewer elements than the sizes say; then the
  /// last one, or zero if there is none, stands for the rest.
  std::vector<std::byte> data;
  std::vector<std::string> strings;  ///< of a tensor of strings, as `data`
};

/// The number of elements that `sizes` say; refuses negative sizes and products beyond 63 bits
/// (ErrorCode::kFormat). `what` describes the tensor: "'m.onnx': tensor 'w'".
std::uint64_t checked_count(std::span<const std::int64_t> sizes, std::string_view what);

/// "'m.onnx': tensor 'w'", or "'m.pb': a tensor" if it has no name.
std::string describe_tensor(std::string_view file, std::string_view name);

/// Appends the typed values of the reader's current field to `tensor`, whose type is set. An
/// integer that the type cannot hold is refused.
void append_values(ProtoReader& reader, StoredTensor& tensor);

/// Checks that the values are as many as the sizes say; if `may_be_filled`, they may be fewer.
void check_values(const StoredTensor& tensor, std::string_view file, bool may_be_filled);

/// The values as a HostTensor. Throws ErrorCode::kUnsupported for a type or a rank that HostTensor
/// lacks, and for a filled tensor (StoredTensor::data) of more than 16 MiB.
HostTensor to_host(const StoredTensor& tensor, std::string_view file);
/// The sizes as a Shape; throws ErrorCode::kUnsupported if there are too many.
Shape to_shape(std::span<const std::int64_t> sizes, std::string_view what);

/// A copy of `tensor`; `table` must have its type.
StoredTensor to_stored(const HostTensor& tensor, std::span<const ElementType> table,
                       std::string name = {});

/// The entry of a number or of a dtype; null if there is none.
const ElementType* find_type(std::span<const ElementType> table, std::int32_t number);
const ElementType* find_type(std::span<const ElementType> table, DType dtype);

}  // namespace sluice::io::formats
