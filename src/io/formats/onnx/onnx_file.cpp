#include "io/formats/onnx/onnx_file.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "io/formats/onnx/onnx_tensor.h"
#include "io/formats/proto_reader.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using Kind = OnnxAttribute::Kind;

/// The fields of AttributeProto that hold values.
constexpr std::array kValueFields{2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 14u, 15u, 22u, 23u};

OnnxGraph read_graph(ProtoReader reader);

std::vector<OnnxGraph> read_graphs(ProtoReader reader, std::uint32_t field) {
  std::vector<OnnxGraph> graphs;
  reserve_for(reader, field, graphs);
  while (reader.next()) {
    if (reader.tag() == field) graphs.push_back(read_graph(reader.message("GraphProto")));
  }
  return graphs;
}

std::vector<std::string> read_texts(ProtoReader reader, std::uint32_t field) {
  std::vector<std::string> texts;
  reserve_for(reader, field, texts);
  while (reader.next()) {
    if (reader.tag() == field) texts.push_back(reader.text());
  }
  return texts;
}

/// The field that holds the value of an attribute of each kind.
std::uint32_t field_of(Kind kind) {
  switch (kind) {
    case Kind::kFloat:
      return 2;
    case Kind::kInt:
      return 3;
    case Kind::kString:
      return 4;
    case Kind::kTensor:
      return 5;
    case Kind::kGraph:
      return 6;
    case Kind::kFloats:
      return 7;
    case Kind::kInts:
      return 8;
    case Kind::kStrings:
      return 9;
    case Kind::kTensors:
      return 10;
    case Kind::kGraphs:
      return 11;
  }
  return 0;
}

/// Name, kind and reference; refuses a value of another kind than the attribute says it has.
OnnxAttribute read_attribute_head(ProtoReader reader) {
  OnnxAttribute attribute;
  std::int32_t kind = 0;
  std::uint32_t fields = 0;
  while (reader.next()) {
    if (reader.tag() == 1) attribute.name = reader.text();
    if (reader.tag() == 20) kind = reader.int32();
    if (reader.tag() == 21) attribute.reference = reader.text();
    const auto* end = kValueFields.end();
    if (std::find(kValueFields.begin(), end, reader.tag()) != end) fields |= 1u << reader.tag();
  }
  if (attribute.name.empty()) reader.refuse("has no name");
  const std::string name = quote_name(attribute.name);
  if (kind == 11 || kind == 12) reader.refuse_unsupported("is {}, a sparse tensor", name);
  if (kind == 13 || kind == 14) reader.refuse_unsupported("is {}, which holds types", name);
  if (kind < 1 || kind > 10) reader.refuse("is {} and does not say its kind ({})", name, kind);
  attribute.kind = static_cast<Kind>(kind);
  if ((fields & ~(1u << field_of(attribute.kind))) != 0)
    reader.refuse("is {} and has values of two kinds", name);
  return attribute;
}

void read_single_value(ProtoReader reader, OnnxAttribute& attribute) {
  if (attribute.kind == Kind::kFloat) attribute.value = 0.0F;
  if (attribute.kind == Kind::kString) attribute.value = std::string();
  while (reader.next()) {
    if (reader.tag() == 2) attribute.value = reader.float32();
    if (reader.tag() == 3) attribute.value = reader.int64();
    if (reader.tag() == 4) attribute.value = reader.text();
  }
}

template <typename T, typename Read>
std::vector<T> read_numbers(ProtoReader reader, std::uint32_t field, Read&& read) {
  std::vector<T> numbers;
  reserve_for(reader, field, numbers);
  while (reader.next()) {
    if (reader.tag() == field) read(reader, numbers);
  }
  return numbers;
}

OnnxAttribute read_attribute(ProtoReader reader) {
  OnnxAttribute attribute = read_attribute_head(reader);
  const std::uint32_t field = field_of(attribute.kind);
  switch (attribute.kind) {
    case Kind::kFloat:
    case Kind::kInt:
    case Kind::kString:
      read_single_value(reader, attribute);
      break;
    case Kind::kTensor:
    case Kind::kTensors:
      attribute.value = read_onnx_tensors(reader, field);
      break;
    case Kind::kGraph:
    case Kind::kGraphs:
      attribute.graphs = read_graphs(reader, field);
      break;
    case Kind::kFloats:
      attribute.value = read_numbers<float>(
          reader, field, [](ProtoReader& r, auto& numbers) { append_fixed(r, numbers); });
      break;
    case Kind::kInts:
      attribute.value =
          read_numbers<std::int64_t>(reader, field, [](ProtoReader& r, auto& numbers) {
            r.each_varint([&](std::int64_t number) { numbers.push_back(number); });
          });
      break;
    case Kind::kStrings:
      attribute.value = read_texts(reader, field);
  }
  const bool is_single = attribute.kind == Kind::kTensor || attribute.kind == Kind::kGraph;
  const auto* tensors = std::get_if<std::vector<OnnxTensor>>(&attribute.value);
  const std::size_t count = attribute.graphs.size() + (tensors == nullptr ? 0 : tensors->size());
  if (is_single && count != 1 && attribute.reference.empty()) {
    reader.refuse("is {} and has {} values instead of 1", quote_name(attribute.name), count);
  }
  return attribute;
}

OnnxNode read_node(ProtoReader reader) {
  OnnxNode node;
  node.inputs = read_texts(reader, 1);
  node.outputs = read_texts(reader, 2);
  reserve_for(reader, 5, node.attributes);
  while (reader.next()) {
    switch (reader.tag()) {
      case 3:
        node.name = reader.text();
        break;
      case 4:
        node.op_type = reader.text();
        break;
      case 5:
        node.attributes.push_back(read_attribute(reader.message("AttributeProto")));
        break;
      case 7:
        node.domain = reader.text();
    }
  }
  if (node.domain == "ai.onnx") node.domain.clear();  // another name of ONNX's own
  if (node.op_type.empty()) reader.refuse("has no operator");
  return node;
}

OnnxAxis read_axis(ProtoReader reader) {
  OnnxAxis axis;
  while (reader.next()) {
    if (reader.tag() == 1) axis.size = reader.int64();
    if (reader.tag() == 2) axis.symbol = reader.text();
  }
  if (axis.size && *axis.size < 0) reader.refuse("is an axis of the negative size {}", *axis.size);
  return axis;
}

std::vector<OnnxAxis> read_axes(ProtoReader reader) {
  std::vector<OnnxAxis> axes;
  reserve_for(reader, 1, axes);
  while (reader.next()) {
    if (reader.tag() == 1) axes.push_back(read_axis(reader.message("Dimension")));
  }
  return axes;
}

const char* kind_of_type(std::uint32_t field) {
  switch (field) {
    case 1:
      return "tensor";
    case 4:
      return "sequence";
    case 5:
      return "map";
    case 7:
      return "opaque";
    case 8:
      return "sparse tensor";
    case 9:
      return "optional";
    default:
      return nullptr;  // a remark
  }
}

void read_type(ProtoReader reader, OnnxValue& value) {
  while (reader.next()) {
    const char* kind = kind_of_type(reader.tag());
    if (kind == nullptr) continue;
    value.kind = kind;
    if (reader.tag() != 1) continue;
    ProtoReader tensor = reader.message("TypeProto.Tensor");
    while (tensor.next()) {
      if (tensor.tag() == 1) value.type = tensor.int32();
      if (tensor.tag() == 2) value.shape = read_axes(tensor.message("TensorShapeProto"));
    }
  }
}

OnnxValue read_value(ProtoReader reader) {
  OnnxValue value;
  while (reader.next()) {
    if (reader.tag() == 1) value.name = reader.text();
    if (reader.tag() == 2) read_type(reader.message("TypeProto"), value);
  }
  if (value.name.empty()) reader.refuse("has no name");
  return value;
}

void check_names(const ProtoReader& reader, const OnnxGraph& graph) {
  if (graph.name.empty()) reader.refuse("has no name");
  std::set<std::string_view> names;
  for (const OnnxTensor& tensor : graph.initializers) {
    if (tensor.name.empty()) reader.refuse("has an initializer without a name");
    if (!names.insert(tensor.name).second) {
      reader.refuse("has two initializers named {}", quote_name(tensor.name));
    }
  }
}

OnnxGraph read_graph(ProtoReader reader) {
  OnnxGraph graph;
  reserve_for(reader, 1, graph.nodes);
  reserve_for(reader, 11, graph.inputs);
  reserve_for(reader, 12, graph.outputs);
  reserve_for(reader, 13, graph.values);
  graph.initializers = read_onnx_tensors(reader, 5);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        graph.nodes.push_back(read_node(reader.message("NodeProto")));
        break;
      case 2:
        graph.name = reader.text();
        break;
      case 11:
        graph.inputs.push_back(read_value(reader.message("ValueInfoProto")));
        break;
      case 12:
        graph.outputs.push_back(read_value(reader.message("ValueInfoProto")));
        break;
      case 13:
        graph.values.push_back(read_value(reader.message("ValueInfoProto")));
        break;
      case 15:
        reader.refuse_unsupported("has a sparse initializer, which is not read");
    }
  }
  check_names(reader, graph);
  return graph;
}

void read_opset(ProtoReader reader, std::map<std::string, std::int64_t>& opsets) {
  std::string domain;
  std::int64_t version = 0;
  while (reader.next()) {
    if (reader.tag() == 1) domain = reader.text();
    if (reader.tag() == 2) version = reader.int64();
  }
  if (version < 1) reader.refuse("has the version {}", version);
  if (domain == "ai.onnx") domain.clear();  // ONNX's own, as its specification allows
  if (!opsets.emplace(domain, version).second) {
    reader.refuse("repeats the domain {}", quote_name(domain));
  }
}

OnnxFunction read_function(ProtoReader reader) {
  OnnxFunction function;
  function.inputs = read_texts(reader, 4);
  function.outputs = read_texts(reader, 5);
  function.attributes = read_texts(reader, 6);
  reserve_for(reader, 7, function.nodes);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        function.name = reader.text();
        break;
      case 7:
        function.nodes.push_back(read_node(reader.message("NodeProto")));
        break;
      case 9:
        read_opset(reader.message("OperatorSetIdProto"), function.opsets);
        break;
      case 10:
        function.domain = reader.text();
        break;
      case 13:
        function.overload = reader.text();
    }
  }
  if (function.name.empty()) reader.refuse("has no name");
  return function;
}

void read_model_field(ProtoReader& reader, OnnxModel& model) {
  switch (reader.tag()) {
    case 1:
      model.ir_version = reader.int64();
      break;
    case 2:
      model.producer_name = reader.text();
      break;
    case 3:
      model.producer_version = reader.text();
      break;
    case 4:
      model.domain = reader.text();
      break;
    case 5:
      model.model_version = reader.int64();
      break;
    case 6:
      model.doc = reader.text();
      break;
    case 7:
      if (!model.graph.name.empty()) reader.refuse("holds two graphs");
      model.graph = read_graph(reader.message("GraphProto"));
      break;
    case 8:
      read_opset(reader.message("OperatorSetIdProto"), model.opsets);
      break;
    case 14:
      model.metadata.insert(read_onnx_pair(reader.message("metadata entry")));
      break;
    case 25:
      model.functions.push_back(read_function(reader.message("FunctionProto")));
  }
}

}  // namespace

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const OnnxAttribute& a) { return a.name == attribute; });
  return found == attributes.end() ? nullptr : &*found;
}

const OnnxTensor* OnnxGraph::find_initializer(std::string_view wanted) const {
  const auto found = std::find_if(initializers.begin(), initializers.end(),
                                  [&](const OnnxTensor& tensor) { return tensor.name == wanted; });
  return found == initializers.end() ? nullptr : &*found;
}

OnnxModel read_onnx(const ByteSource& source) {
  const std::string bytes = read_message_bytes(source);
  ProtoReader reader(bytes, source.path().native(), "ModelProto");
  OnnxModel model;
  model.path = source.path();
  reserve_for(reader, 25, model.functions);
  while (reader.next()) read_model_field(reader, model);
  if (model.ir_version < 1 || model.graph.name.empty()) {
    reader.refuse("lacks its version or its graph; is it no model of ONNX?");
  }
  return model;
}

OnnxModel read_onnx(const std::filesystem::path& path) {
  return read_onnx(ByteSource(File::open(path)));
}

}  // namespace sluice::io::formats
