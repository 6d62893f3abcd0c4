#pragma once

#include <variant>

#include "io/formats/tensorflow/graph_def.h"
#include "sluice/error.h"
#include "touch.h"

namespace sluice::io::formats {

inline void touch(const StoredTensor& tensor) {
  touch(tensor.data);
  for (const std::string& text : tensor.strings) touch(text);
  try {
    touch(to_host(tensor, "fuzz").data);
  } catch (const Error&) {
  }
}

inline void touch(const GraphAttributes& attributes) {
  for (const auto& [name, attribute] : attributes) {
    touch(name);
    if (const auto* text = std::get_if<std::string>(&attribute)) touch(*text);
    if (const auto* tensor = std::get_if<StoredTensor>(&attribute)) touch(*tensor);
    if (const auto* tensors = std::get_if<std::vector<StoredTensor>>(&attribute)) {
      for (const StoredTensor& tensor : *tensors) touch(tensor);
    }
  }
}

inline void touch(const std::vector<GraphNode>& nodes) {
  for (const GraphNode& node : nodes) {
    touch(node.name);
    touch(node.op);
    for (const std::string& input : node.inputs) touch(input);
    touch(node.attributes);
  }
}

inline void touch(const GraphDef& graph) {
  touch(graph.nodes);
  for (const GraphFunction& function : graph.functions) {
    touch(function.nodes);
    touch(function.attributes);
    for (const auto& [output, value] : function.returns) touch(output + value);
  }
}

}  // namespace sluice::io::formats
