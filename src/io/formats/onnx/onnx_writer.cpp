#include <protozero/pbf_writer.hpp>

#include "base/check.h"
#include "io/formats/onnx/onnx_file.h"
#include "io/formats/proto_reader.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using protozero::pbf_writer;
using Kind = OnnxAttribute::Kind;

void write_graph(pbf_writer writer, const OnnxGraph& graph);

void write_tensor(pbf_writer writer, const OnnxTensor& tensor) {
  const ElementType& type = *tensor.type;
  if (tensor.external || (type.bytes == 0 && !type.is_string)) {
    base::fail(ErrorCode::kUnsupported, "tensor {} of type {} cannot be written{}",
               quote_name(tensor.name), type.name,
               tensor.external ? ", since its values are in another file" : "");
  }
  for (const std::int64_t size : tensor.sizes) writer.add_int64(1, size);
  writer.add_int32(2, type.number);
  if (!tensor.name.empty()) writer.add_string(8, tensor.name);
  for (const std::string& value : tensor.strings) writer.add_bytes(6, value);
  if (!type.is_string) {
    writer.add_bytes(9, reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
}

/// The value in the field of its kind.
struct ValueWriter {
  pbf_writer& writer;
  Kind kind;

  void operator()(std::int64_t value) const {
    if (kind == Kind::kInt) writer.add_int64(3, value);
  }
  void operator()(float value) const { writer.add_float(2, value); }
  void operator()(const std::string& value) const { writer.add_bytes(4, value); }
  void operator()(const std::vector<float>& values) const {
    for (const float value : values) writer.add_float(7, value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t value : values) writer.add_int64(8, value);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) writer.add_bytes(9, value);
  }
  void operator()(const std::vector<OnnxTensor>& values) const {
    const std::uint32_t field = kind == Kind::kTensor ? 5 : 10;
    for (const OnnxTensor& value : values) write_tensor(pbf_writer(writer, field), value);
  }
};

void write_attribute(pbf_writer writer, const OnnxAttribute& attribute) {
  writer.add_string(1, attribute.name);
  writer.add_enum(20, static_cast<std::int32_t>(attribute.kind));
  if (!attribute.reference.empty()) {
    writer.add_string(21, attribute.reference);
    return;
  }
  std::visit(ValueWriter{writer, attribute.kind}, attribute.value);
  const std::uint32_t field = attribute.kind == Kind::kGraph ? 6 : 11;
  for (const OnnxGraph& graph : attribute.graphs) write_graph(pbf_writer(writer, field), graph);
}

void write_texts(pbf_writer& writer, std::uint32_t field, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) writer.add_string(field, text);
}

void write_nodes(pbf_writer& parent, std::uint32_t field, const std::vector<OnnxNode>& nodes) {
  for (const OnnxNode& node : nodes) {
    SLUICE_CHECK(!node.op_type.empty(), "node {} of an ONNX graph needs an operator",
                 quote_name(node.name));
    pbf_writer writer(parent, field);
    write_texts(writer, 1, node.inputs);
    write_texts(writer, 2, node.outputs);
    if (!node.name.empty()) writer.add_string(3, node.name);
    writer.add_string(4, node.op_type);
    for (const OnnxAttribute& attribute : node.attributes) {
      write_attribute(pbf_writer(writer, 5), attribute);
    }
    if (!node.domain.empty()) writer.add_string(7, node.domain);
  }
}

/// The writer drops messages without fields, but an axis of no known size is one, and so is the
/// shape of a scalar.
std::string shape_bytes(const std::vector<OnnxAxis>& axes) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const OnnxAxis& axis : axes) {
    std::string axis_bytes;
    pbf_writer axis_writer(axis_bytes);
    if (axis.size) {
      axis_writer.add_int64(1, *axis.size);
    } else if (!axis.symbol.empty()) {
      axis_writer.add_string(2, axis.symbol);
    }
    writer.add_message(1, axis_bytes);
  }
  return bytes;
}

void write_values(pbf_writer& parent, std::uint32_t field, const std::vector<OnnxValue>& values) {
  for (const OnnxValue& value : values) {
    SLUICE_CHECK(value.kind.empty() || value.kind == "tensor",
                 "value {} is a {}; only tensors are written", quote_name(value.name), value.kind);
    pbf_writer writer(parent, field);
    writer.add_string(1, value.name);
    if (value.kind.empty()) continue;
    pbf_writer type(writer, 2);
    pbf_writer tensor(type, 1);
    tensor.add_int32(1, value.type);
    if (value.shape) tensor.add_message(2, shape_bytes(*value.shape));
  }
}

void write_graph(pbf_writer writer, const OnnxGraph& graph) {
  SLUICE_CHECK(!graph.name.empty(), "an ONNX graph needs a name");
  write_nodes(writer, 1, graph.nodes);
  writer.add_string(2, graph.name);
  for (const OnnxTensor& tensor : graph.initializers) {
    SLUICE_CHECK(!tensor.name.empty(), "an initializer of ONNX graph {} needs a name",
                 quote_name(graph.name));
    write_tensor(pbf_writer(writer, 5), tensor);
  }
  write_values(writer, 11, graph.inputs);
  write_values(writer, 12, graph.outputs);
  write_values(writer, 13, graph.values);
}

void write_opsets(pbf_writer& parent, std::uint32_t field,
                  const std::map<std::string, std::int64_t>& opsets) {
  for (const auto& [domain, version] : opsets) {
    pbf_writer writer(parent, field);
    writer.add_string(1, domain);
    writer.add_int64(2, version);
  }
}

void write_function(pbf_writer writer, const OnnxFunction& function) {
  writer.add_string(1, function.name);
  write_texts(writer, 4, function.inputs);
  write_texts(writer, 5, function.outputs);
  write_texts(writer, 6, function.attributes);
  write_nodes(writer, 7, function.nodes);
  write_opsets(writer, 9, function.opsets);
  writer.add_string(10, function.domain);
  if (!function.overload.empty()) writer.add_string(13, function.overload);
}

}  // namespace

std::string write_onnx(const OnnxModel& model) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, model.ir_version);
  if (!model.producer_name.empty()) writer.add_string(2, model.producer_name);
  if (!model.producer_version.empty()) writer.add_string(3, model.producer_version);
  if (!model.domain.empty()) writer.add_string(4, model.domain);
  if (model.model_version != 0) writer.add_int64(5, model.model_version);
  if (!model.doc.empty()) writer.add_string(6, model.doc);
  write_graph(pbf_writer(writer, 7), model.graph);
  write_opsets(writer, 8, model.opsets);
  for (const auto& [key, value] : model.metadata) {
    pbf_writer entry(writer, 14);
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
  for (const OnnxFunction& function : model.functions) {
    write_function(pbf_writer(writer, 25), function);
  }
  check_message_size(bytes);
  return bytes;
}

}  // namespace sluice::io::formats
