#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/stored_tensor.h"
#include "io/formats/tensorflow/tensorflow_types.h"

namespace sluice::io::formats {

/// A type as an attribute's value: TensorFlow's number (tensorflow_type_name()).
struct TensorflowType {
  std::int32_t number = 0;

  bool operator==(const TensorflowType&) const = default;
};

/// The name of a function and its attributes (message NameAttrList). The attributes are no part of
/// the plain data; `has_attributes` says that there were some.
struct FunctionName {
  std::string name;
  bool has_attributes = false;
};

/// A placeholder for the attribute of a function's caller.
struct PlaceholderName {
  std::string name;
};

/// A list whose kind is not known, since it is empty.
struct EmptyList {};

/// An attribute's value (message AttrValue). std::monostate: the file says no value.
using GraphAttribute =
    std::variant<std::monostate, std::string, std::int64_t, float, bool, TensorflowType,
                 TensorflowShape, StoredTensor, FunctionName, PlaceholderName, EmptyList,
                 std::vector<std::string>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<bool>, std::vector<TensorflowType>, std::vector<TensorflowShape>,
                 std::vector<StoredTensor>, std::vector<FunctionName>>;
using GraphAttributes = std::map<std::string, GraphAttribute, std::less<>>;

/// An operation of a graph (message NodeDef).
struct GraphNode {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  ///< "node", "node:1", "^node" (control); see the format
  std::string device;
  GraphAttributes attributes;

  /// Null if there is none of that name.
  const GraphAttribute* find(std::string_view attribute) const;
};

/// A function of a graph's library (message FunctionDef).
struct GraphFunction {
  struct Argument {
    std::string name;
    std::int32_t type = 0;       ///< TensorFlow's number; 0 if an attribute says it
    std::string type_attribute;  ///< the attribute's name, or empty
  };
  std::string name;
  std::vector<Argument> inputs, outputs;
  std::vector<GraphNode> nodes;
  GraphAttributes attributes;
  std::map<std::string, std::string> returns;  ///< of each output: "node:output:0"
};

/// A graph of TensorFlow (message GraphDef).
struct GraphDef {
  std::vector<GraphNode> nodes;  ///< in the order of the file
  std::vector<GraphFunction> functions;
  std::map<std::string, std::string> gradients;  ///< of functions, by name
  std::int32_t producer = 0;                     ///< version of the writer; 0: not said
  std::int32_t min_consumer = 0;                 ///< oldest version of readers that may read it

  /// Null if there is none of that name.
  const GraphNode* find(std::string_view name) const;
};

/// Reads a binary GraphDef, such as a frozen graph. Names of nodes are not empty and not used
/// twice. Memory: at most 64 times the file's size. Errors are ErrorCode::kFormat and name the file
/// and the byte; the text format (.pbtxt) and unknown types of tensors are ErrorCode::kUnsupported.
GraphDef read_graph_def(const std::filesystem::path& path);
GraphDef read_graph_def(const ByteSource& source);
/// The same for a message within another file.
GraphDef read_graph_def(ProtoReader reader);

/// The bytes of a GraphDef that TensorFlow reads. Throws ErrorCode::kUnsupported for a tensor whose
/// values are not kept, and for a function's name with attributes.
std::string write_graph_def(const GraphDef& graph);

/// Refuses protobuf's text format by name (ErrorCode::kUnsupported).
void refuse_text_format(std::string_view bytes, const std::filesystem::path& path);

}  // namespace sluice::io::formats
