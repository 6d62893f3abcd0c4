#include "io/formats/tensorflow/graph_def.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

FunctionName read_function_name(ProtoReader reader) {
  FunctionName function;
  while (reader.next()) {
    if (reader.tag() == 1) function.name = reader.text();
    if (reader.tag() == 2) function.has_attributes = true;
  }
  if (function.name.empty()) reader.refuse("names no function");
  return function;
}

/// Reads a list whose elements are all of the kind that field `field` holds.
template <typename T, typename Read>
std::vector<T> read_list(ProtoReader reader, std::uint32_t field, Read&& read) {
  std::vector<T> list;
  reserve_for(reader, field, list);
  while (reader.next()) {
    if (reader.tag() != field) reader.refuse("mixes values of several kinds");
    read(reader, list);
  }
  return list;
}

/// The numbers of a varint field, packed or not.
template <typename T, typename Make>
std::vector<T> read_varint_list(ProtoReader reader, std::uint32_t field, Make&& make) {
  return read_list<T>(reader, field, [&](ProtoReader& fields, std::vector<T>& list) {
    fields.each_varint([&](std::int64_t value) { list.push_back(make(value)); });
  });
}

GraphAttribute read_attribute_list(ProtoReader reader) {
  ProtoReader first = reader;
  if (!first.next()) return EmptyList{};
  switch (const std::uint32_t field = first.tag()) {
    case 2:
      return read_list<std::string>(reader, field,
                                    [](ProtoReader& r, auto& list) { list.push_back(r.text()); });
    case 3:
      return read_varint_list<std::int64_t>(reader, field, [](std::int64_t v) { return v; });
    case 4:
      return read_list<float>(reader, field,
                              [](ProtoReader& r, auto& list) { append_fixed(r, list); });
    case 5:
      return read_varint_list<bool>(reader, field, [](std::int64_t v) { return v != 0; });
    case 6:
      return read_varint_list<TensorflowType>(reader, field, [](std::int64_t v) {
        return TensorflowType{static_cast<std::int32_t>(v)};
      });
    case 7:
      return read_list<TensorflowShape>(reader, field, [](ProtoReader& r, auto& list) {
        list.push_back(read_tensorflow_shape(r.message("TensorShapeProto")));
      });
    case 8:
      return read_list<StoredTensor>(reader, field, [](ProtoReader& r, auto& list) {
        list.push_back(read_tensorflow_tensor(r.message("TensorProto")));
      });
    case 9:
      return read_list<FunctionName>(reader, field, [](ProtoReader& r, auto& list) {
        list.push_back(read_function_name(r.message("NameAttrList")));
      });
    default:
      reader.refuse_unsupported("holds values of a kind ({}) that is unknown here", field);
  }
}

GraphAttribute read_attribute_value(ProtoReader reader) {
  GraphAttribute value;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        value = read_attribute_list(reader.message("ListValue"));
        break;
      case 2:
        value = reader.text();
        break;
      case 3:
        value = reader.int64();
        break;
      case 4:
        value = reader.float32();
        break;
      case 5:
        value = reader.boolean();
        break;
      case 6:
        value = TensorflowType{reader.int32()};
        break;
      case 7:
        value = read_tensorflow_shape(reader.message("TensorShapeProto"));
        break;
      case 8:
        value = read_tensorflow_tensor(reader.message("TensorProto"));
        break;
      case 9:
        value = PlaceholderName{reader.text()};
        break;
      case 10:
        value = read_function_name(reader.message("NameAttrList"));
        break;
      default:
        reader.refuse_unsupported("holds a value of a kind ({}) that is unknown here",
                                  reader.tag());
    }
  }
  return value;
}

/// An entry of a map from names to attributes.
void read_attribute(ProtoReader reader, GraphAttributes& attributes) {
  std::string name;
  GraphAttribute value;
  while (reader.next()) {
    if (reader.tag() == 1) name = reader.text();
    if (reader.tag() == 2) value = read_attribute_value(reader.message("AttrValue"));
  }
  if (name.empty()) reader.refuse("has no name");
  const bool is_new = attributes.emplace(name, std::move(value)).second;
  if (!is_new) reader.refuse("repeats the name {}", quote_name(name));
}

void read_string_pair(ProtoReader reader, std::map<std::string, std::string>& map) {
  std::string key, value;
  while (reader.next()) {
    if (reader.tag() == 1) key = reader.text();
    if (reader.tag() == 2) value = reader.text();
  }
  if (key.empty() || value.empty()) reader.refuse("lacks a name");
  map[std::move(key)] = std::move(value);
}

GraphNode read_node(ProtoReader reader) {
  GraphNode node;
  reserve_for(reader, 3, node.inputs);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        node.name = reader.text();
        break;
      case 2:
        node.op = reader.text();
        break;
      case 3:
        node.inputs.push_back(reader.text());
        break;
      case 4:
        node.device = reader.text();
        break;
      case 5:
        read_attribute(reader.message("AttrEntry"), node.attributes);
    }
  }
  if (node.name.empty()) reader.refuse("has no name");
  if (node.op.empty()) reader.refuse("is node {} without an operation", quote_name(node.name));
  return node;
}

GraphFunction::Argument read_argument(ProtoReader reader) {
  GraphFunction::Argument argument;
  while (reader.next()) {
    if (reader.tag() == 1) argument.name = reader.text();
    if (reader.tag() == 3) argument.type = reader.int32();
    if (reader.tag() == 4) argument.type_attribute = reader.text();
    if (reader.tag() == 5 || reader.tag() == 6) {
      reader.refuse_unsupported("is a list of tensors, which is not read");
    }
  }
  if (argument.name.empty()) reader.refuse("has no name");
  return argument;
}

void read_signature(ProtoReader reader, GraphFunction& function) {
  reserve_for(reader, 2, function.inputs);
  reserve_for(reader, 3, function.outputs);
  while (reader.next()) {
    if (reader.tag() == 1) function.name = reader.text();
    if (reader.tag() == 2) function.inputs.push_back(read_argument(reader.message("ArgDef")));
    if (reader.tag() == 3) function.outputs.push_back(read_argument(reader.message("ArgDef")));
  }
}

/// Appends the nodes of field `field`; their names must differ.
void read_nodes(const ProtoReader& reader, std::uint32_t field, std::vector<GraphNode>& nodes) {
  reserve_for(reader, field, nodes);
  for (ProtoReader fields = reader; fields.next();) {
    if (fields.tag() == field) nodes.push_back(read_node(fields.message("NodeDef")));
  }
  std::set<std::string_view> names;
  for (const GraphNode& node : nodes) {
    if (!names.insert(node.name).second) {
      reader.refuse("has two nodes named {}", quote_name(node.name));
    }
  }
}

GraphFunction read_function(ProtoReader reader) {
  GraphFunction function;
  read_nodes(reader, 3, function.nodes);
  while (reader.next()) {
    if (reader.tag() == 1) read_signature(reader.message("OpDef"), function);
    if (reader.tag() == 4) read_string_pair(reader.message("RetEntry"), function.returns);
    if (reader.tag() == 5) read_attribute(reader.message("AttrEntry"), function.attributes);
  }
  if (function.name.empty()) reader.refuse("has no name");
  return function;
}

void read_library(ProtoReader reader, GraphDef& graph) {
  reserve_for(reader, 1, graph.functions);
  while (reader.next()) {
    if (reader.tag() == 1) graph.functions.push_back(read_function(reader.message("FunctionDef")));
    if (reader.tag() == 2) read_string_pair(reader.message("GradientDef"), graph.gradients);
  }
}

void read_versions(ProtoReader reader, GraphDef& graph) {
  while (reader.next()) {
    if (reader.tag() == 1) graph.producer = reader.int32();
    if (reader.tag() == 2) graph.min_consumer = reader.int32();
  }
}

}  // namespace

const GraphAttribute* GraphNode::find(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? nullptr : &found->second;
}

const GraphNode* GraphDef::find(std::string_view name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const GraphNode& node) { return node.name == name; });
  return found == nodes.end() ? nullptr : &*found;
}

GraphDef read_graph_def(ProtoReader reader) {
  GraphDef graph;
  read_nodes(reader, 1, graph.nodes);
  while (reader.next()) {
    if (reader.tag() == 2) read_library(reader.message("FunctionDefLibrary"), graph);
    if (reader.tag() == 3) graph.producer = reader.int32();  // the field before VersionDef
    if (reader.tag() == 4) read_versions(reader.message("VersionDef"), graph);
  }
  return graph;
}

GraphDef read_graph_def(const ByteSource& source) {
  const std::string bytes = read_message_bytes(source);
  refuse_text_format(bytes, source.path());
  ProtoReader reader(bytes, source.path().native(), "GraphDef");
  GraphDef graph = read_graph_def(reader);
  if (graph.nodes.empty()) reader.refuse("has no nodes; is it another kind of file?");
  return graph;
}

GraphDef read_graph_def(const std::filesystem::path& path) {
  return read_graph_def(ByteSource(File::open(path)));
}

void refuse_text_format(std::string_view bytes, const std::filesystem::path& path) {
  const bool is_named_so = path.extension() == ".pbtxt" || path.extension() == ".prototxt";
  if (!is_named_so && !looks_like_text(bytes)) return;
  base::fail(ErrorCode::kUnsupported,
             "'{}' is in protobuf's text format, which is not read; save it in the binary format "
             "(.pb)",
             path.native());
}

}  // namespace sluice::io::formats
