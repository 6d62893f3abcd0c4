#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/proto_reader.h"
#include "io/formats/stored_tensor.h"

namespace sluice::io::formats {

/// TensorFlow's types of elements (enum DataType).
std::span<const ElementType> tensorflow_types();

/// Returns the name of a number in a file: "DT_FLOAT"; "DT_FLOAT_REF" for a reference to one
/// (numbers from 101 on); "type 77" for a number that is not known.
std::string tensorflow_type_name(std::int32_t number);
/// The number of TensorFlow's type for a dtype.
std::int32_t tensorflow_type_of(DType dtype);

/// A shape that may be partly known (message TensorShapeProto).
struct TensorflowShape {
  bool is_known_rank = true;
  std::vector<std::int64_t> sizes;  ///< axes, outermost first; -1 if not known

  bool operator==(const TensorflowShape&) const = default;
};

TensorflowShape read_tensorflow_shape(ProtoReader reader);
/// Writes the field `field` of `parent`.
void write_tensorflow_shape(protozero::pbf_writer& parent, std::uint32_t field,
                            const TensorflowShape& shape);

/// Reads a TensorProto. Memory: at most 32 times its bytes.
StoredTensor read_tensorflow_tensor(ProtoReader reader);
/// Refuses types whose values are not kept (ErrorCode::kUnsupported).
void write_tensorflow_tensor(protozero::pbf_writer writer, const StoredTensor& tensor);
/// The typed values of a TensorProto alone, for a tensor whose type and sizes are set.
void read_tensorflow_values(ProtoReader reader, StoredTensor& tensor);

}  // namespace sluice::io::formats
