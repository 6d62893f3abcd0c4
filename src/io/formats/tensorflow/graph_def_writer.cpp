#include <protozero/pbf_writer.hpp>
#include <type_traits>

#include "base/check.h"
#include "io/formats/proto_reader.h"
#include "io/formats/tensorflow/graph_def.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using protozero::pbf_writer;

std::string function_name_bytes(const FunctionName& function) {
  if (function.has_attributes) {
    base::fail(ErrorCode::kUnsupported,
               "the attribute that names function {} with attributes cannot be written",
               quote_name(function.name));
  }
  std::string bytes;
  pbf_writer(bytes).add_string(1, function.name);
  return bytes;
}

void write_tensor_field(pbf_writer& parent, std::uint32_t field, const StoredTensor& tensor) {
  write_tensorflow_tensor(pbf_writer(parent, field), tensor);
}

/// Adds an attribute's value, or an element of a list, which have the same numbers except for that
/// of functions.
void add_value(pbf_writer& writer, const std::string& value) { writer.add_bytes(2, value); }
void add_value(pbf_writer& writer, std::int64_t value) { writer.add_int64(3, value); }
void add_value(pbf_writer& writer, float value) { writer.add_float(4, value); }
void add_value(pbf_writer& writer, bool value) { writer.add_bool(5, value); }
void add_value(pbf_writer& writer, TensorflowType value) { writer.add_enum(6, value.number); }
void add_value(pbf_writer& writer, const TensorflowShape& value) {
  write_tensorflow_shape(writer, 7, value);
}
void add_value(pbf_writer& writer, const StoredTensor& value) {
  write_tensor_field(writer, 8, value);
}
void add_value(pbf_writer&, std::monostate) {}
void add_value(pbf_writer& writer, const PlaceholderName& value) {
  writer.add_string(9, value.name);
}
void add_value(pbf_writer& writer, const FunctionName& value) {
  writer.add_message(10, function_name_bytes(value));
}
void add_value(pbf_writer& writer, const EmptyList&) { writer.add_message(1, "", 0); }

template <typename T>
void add_value(pbf_writer& writer, const std::vector<T>& values) {
  if (values.empty()) return add_value(writer, EmptyList{});
  pbf_writer list(writer, 1);
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, FunctionName>) {
      list.add_message(9, function_name_bytes(value));
    } else {
      add_value(list, value);
    }
  }
}

void write_attributes(pbf_writer& parent, std::uint32_t field, const GraphAttributes& attributes) {
  for (const auto& [name, attribute] : attributes) {
    pbf_writer entry(parent, field);
    entry.add_string(1, name);
    pbf_writer value(entry, 2);
    std::visit([&](const auto& held) { add_value(value, held); }, attribute);
  }
}

void write_nodes(pbf_writer& parent, std::uint32_t field, const std::vector<GraphNode>& nodes) {
  for (const GraphNode& node : nodes) {
    SLUICE_CHECK(!node.name.empty() && !node.op.empty(), "a graph's node needs a name and an op");
    pbf_writer writer(parent, field);
    writer.add_string(1, node.name);
    writer.add_string(2, node.op);
    for (const std::string& input : node.inputs) writer.add_string(3, input);
    if (!node.device.empty()) writer.add_string(4, node.device);
    write_attributes(writer, 5, node.attributes);
  }
}

void write_arguments(pbf_writer& parent, std::uint32_t field,
                     const std::vector<GraphFunction::Argument>& arguments) {
  for (const GraphFunction::Argument& argument : arguments) {
    pbf_writer writer(parent, field);
    writer.add_string(1, argument.name);
    if (argument.type != 0) writer.add_enum(3, argument.type);
    if (!argument.type_attribute.empty()) writer.add_string(4, argument.type_attribute);
  }
}

void write_string_map(pbf_writer& parent, std::uint32_t field,
                      const std::map<std::string, std::string>& map) {
  for (const auto& [key, value] : map) {
    pbf_writer entry(parent, field);
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
}

void write_function(pbf_writer writer, const GraphFunction& function) {
  {
    pbf_writer signature(writer, 1);
    signature.add_string(1, function.name);
    write_arguments(signature, 2, function.inputs);
    write_arguments(signature, 3, function.outputs);
  }
  write_nodes(writer, 3, function.nodes);
  write_string_map(writer, 4, function.returns);
  write_attributes(writer, 5, function.attributes);
}

}  // namespace

std::string write_graph_def(const GraphDef& graph) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_nodes(writer, 1, graph.nodes);
  {
    pbf_writer library(writer, 2);
    for (const GraphFunction& function : graph.functions) {
      write_function(pbf_writer(library, 1), function);
    }
    write_string_map(library, 2, graph.gradients);
  }
  {
    pbf_writer versions(writer, 4);
    if (graph.producer != 0) versions.add_int32(1, graph.producer);
    if (graph.min_consumer != 0) versions.add_int32(2, graph.min_consumer);
  }
  check_message_size(bytes);
  return bytes;
}

}  // namespace sluice::io::formats
