#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/stored_tensor.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// ONNX's types of elements (enum TensorProto.DataType).
std::span<const ElementType> onnx_types();
/// "FLOAT", or "type 77" for a number that is not known.
std::string onnx_type_name(std::int32_t number);
/// The number of ONNX's type for a dtype.
std::int32_t onnx_type_of(DType dtype);

/// Where the values of a tensor outside of the model's file are.
struct OnnxExternalData {
  std::string location;  ///< a path within the model's folder, as the file spells it
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  ///< absent: as many bytes as the tensor has
};

/// A tensor, whose values are here or in another file.
struct OnnxTensor : StoredTensor {
  std::optional<OnnxExternalData> external;
};

struct OnnxGraph;

/// An attribute of a node. `value` has what `kind` says; graphs stand in `graphs`, since they hold
/// attributes themselves.
struct OnnxAttribute {
  /// As ONNX numbers them.
  enum class Kind {
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
  };
  std::string name;
  Kind kind = Kind::kInt;
  std::variant<std::int64_t, float, std::string, std::vector<float>, std::vector<std::int64_t>,
               std::vector<std::string>, std::vector<OnnxTensor>>
      value;                      ///< of kTensor: a vector of one; of graphs: unused
  std::vector<OnnxGraph> graphs;  ///< of kGraph: one
  std::string reference;          ///< in functions: the function's attribute that gives the value
};

/// A node of a graph (message NodeProto).
struct OnnxNode {
  std::string name;
  std::string op_type;                       ///< never empty
  std::string domain;                        ///< empty: ONNX's own operators
  std::vector<std::string> inputs, outputs;  ///< empty: an optional one that is left out
  std::vector<OnnxAttribute> attributes;

  /// Null if there is none of that name.
  const OnnxAttribute* find(std::string_view attribute) const;
};

/// An axis that has a size, a symbol such as "batch", or neither.
struct OnnxAxis {
  std::optional<std::int64_t> size;
  std::string symbol;
};

/// An input, an output or another value of a graph (message ValueInfoProto).
struct OnnxValue {
  std::string name;
  /// "tensor", or another kind ("sequence", "map", "optional", "sparse tensor", "opaque"), of which
  /// nothing more is read; empty if the file does not say it.
  std::string kind;
  std::int32_t type = 0;                            ///< ONNX's number; 0: not known
  std::optional<std::vector<OnnxAxis>> shape = {};  ///< outermost first; absent: unknown rank
};

/// A graph (message GraphProto).
struct OnnxGraph {
  std::string name;  ///< never empty
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;  ///< constants, mostly weights; all have names
  std::vector<OnnxValue> inputs, outputs, values;

  /// Null if there is none of that name.
  const OnnxTensor* find_initializer(std::string_view name) const;
};

/// A function of a model: an operator that consists of nodes (message FunctionProto).
struct OnnxFunction {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<OnnxNode> nodes;
  std::map<std::string, std::int64_t> opsets;  ///< by domain
};

/// A model (message ModelProto).
struct OnnxModel {
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  ///< by domain; "" is ONNX's own
  std::string producer_name, producer_version, domain, doc;
  std::int64_t model_version = 0;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
  std::map<std::string, std::string> metadata;
  std::filesystem::path path;  ///< of the file; its folder holds external data
};

/// Reads a model of ONNX. Values in other files stay there until read_tensor(). Memory: at most 64
/// times the file's size. Errors are ErrorCode::kFormat and name the file and the byte. Refused
/// with ErrorCode::kUnsupported: sparse initializers and attributes, attributes that are types,
/// tensors cut into segments, unknown element types.
OnnxModel read_onnx(const std::filesystem::path& path);
OnnxModel read_onnx(const ByteSource& source);

/// A tensor's values, also from an external file, which must be a regular file within the folder of
/// `model_path`: a location that is absolute, has a part "..", or leads out of the folder through a
/// link is refused (ErrorCode::kFormat). Throws ErrorCode::kUnsupported for a type or a rank that
/// HostTensor lacks. An external tensor takes no memory before its file is known to hold it.
HostTensor read_tensor(const OnnxTensor& tensor, const std::filesystem::path& model_path);

/// A named tensor to write.
OnnxTensor to_onnx(const HostTensor& tensor, std::string name = {});

/// The bytes of a model's file. Throws ErrorCode::kUnsupported for tensors with external data or of
/// types whose values are not kept, and for models of more than 2 GiB. Does not check the model
/// against ONNX's operators.
std::string write_onnx(const OnnxModel& model);

}  // namespace sluice::io::formats
