#include "io/formats/tensorflow/object_graph.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "base/check.h"
#include "io/formats/proto_reader.h"

namespace sluice::io::formats {
namespace {

ObjectGraph::Child read_child(ProtoReader reader) {
  ObjectGraph::Child child;
  while (reader.next()) {
    if (reader.tag() == 1) child.object = reader.int32();
    if (reader.tag() == 2) child.name = reader.text();
  }
  return child;
}

ObjectGraph::Value read_value(ProtoReader reader) {
  ObjectGraph::Value value;
  while (reader.next()) {
    if (reader.tag() == 1) value.name = reader.text();
    if (reader.tag() == 2) value.full_name = reader.text();
    if (reader.tag() == 3) value.key = reader.text();
  }
  if (value.key.empty()) reader.refuse("names no key of the checkpoint");
  return value;
}

ObjectGraph::Slot read_slot(ProtoReader reader) {
  ObjectGraph::Slot slot;
  while (reader.next()) {
    if (reader.tag() == 1) slot.original = reader.int32();
    if (reader.tag() == 2) slot.name = reader.text();
    if (reader.tag() == 3) slot.variable = reader.int32();
  }
  return slot;
}

ObjectGraph::Object read_object(ProtoReader reader) {
  ObjectGraph::Object object;
  reserve_for(reader, 1, object.children);
  reserve_for(reader, 2, object.values);
  reserve_for(reader, 3, object.slots);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        object.children.push_back(read_child(reader.message("ObjectReference")));
        break;
      case 2:
        object.values.push_back(read_value(reader.message("SerializedTensor")));
        break;
      case 3:
        object.slots.push_back(read_slot(reader.message("SlotVariableReference")));
    }
  }
  return object;
}

void check_indices(const ObjectGraph& graph, const ProtoReader& reader) {
  const auto check = [&](std::int32_t index) {
    if (index < 0 || static_cast<std::size_t>(index) >= graph.objects.size()) {
      reader.refuse("refers to object {} of {}", index, graph.objects.size());
    }
  };
  for (const ObjectGraph::Object& object : graph.objects) {
    for (const ObjectGraph::Child& child : object.children) check(child.object);
    for (const ObjectGraph::Slot& slot : object.slots) {
      check(slot.original);
      check(slot.variable);
    }
  }
}

std::string write_object(const ObjectGraph::Object& object) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  for (const ObjectGraph::Child& child : object.children) {
    protozero::pbf_writer reference(writer, 1);
    reference.add_int32(1, child.object);
    reference.add_string(2, child.name);
  }
  for (const ObjectGraph::Value& value : object.values) {
    protozero::pbf_writer tensor(writer, 2);
    tensor.add_string(1, value.name);
    tensor.add_string(2, value.full_name);
    tensor.add_string(3, value.key);
  }
  for (const ObjectGraph::Slot& slot : object.slots) {
    protozero::pbf_writer reference(writer, 3);
    reference.add_int32(1, slot.original);
    reference.add_string(2, slot.name);
    reference.add_int32(3, slot.variable);
  }
  return bytes;
}

/// The child of that name; makes one if there is none.
std::size_t child_of(ObjectGraph& graph, std::size_t parent, std::string_view name) {
  const std::vector<ObjectGraph::Child>& children = graph.objects[parent].children;
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const ObjectGraph::Child& c) { return c.name == name; });
  if (found != children.end()) return static_cast<std::size_t>(found->object);
  const std::size_t child = graph.objects.size();
  graph.objects[parent].children.push_back({std::string(name), static_cast<std::int32_t>(child)});
  graph.objects.emplace_back();
  return child;
}

}  // namespace

std::map<std::string, std::string> ObjectGraph::full_names() const {
  std::map<std::string, std::string> names;
  for (const Object& object : objects) {
    for (const Value& value : object.values) {
      if (!value.full_name.empty()) names.emplace(value.key, value.full_name);
    }
  }
  return names;
}

ObjectGraph read_object_graph(std::string_view bytes, std::string_view file) {
  ProtoReader reader(bytes, file, "TrackableObjectGraph");
  ObjectGraph graph;
  reserve_for(reader, 1, graph.objects);
  while (reader.next()) {
    if (reader.tag() == 1) graph.objects.push_back(read_object(reader.message("TrackableObject")));
  }
  check_indices(graph, reader);
  return graph;
}

std::string write_object_graph(const ObjectGraph& graph) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  // Objects are counted, so that one without content must be written as well.
  for (const ObjectGraph::Object& object : graph.objects) {
    writer.add_message(1, write_object(object));
  }
  return bytes;
}

ObjectGraph object_graph_of(const std::vector<std::string>& paths) {
  ObjectGraph graph;
  graph.objects.emplace_back();
  for (const std::string& path : paths) {
    std::size_t object = 0;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      object = child_of(graph, object, std::string_view(path).substr(begin, end - begin));
      begin = end + 1;
    }
    graph.objects[object].values.push_back(
        {"VARIABLE_VALUE", path, path + std::string(kVariableValueSuffix)});
  }
  return graph;
}

}  // namespace sluice::io::formats
