#include <cstdint>
#include <string_view>

#include "io/formats/onnx/onnx_file.h"
#include "sluice/error.h"
#include "touch.h"

namespace sluice::io::formats {
namespace {

void touch_graph(const OnnxGraph& graph);

/// External files are not opened.
void touch_tensor(const OnnxTensor& tensor) {
  touch(tensor.name);
  touch(tensor.data);
  for (const std::string& text : tensor.strings) touch(text);
  if (tensor.external) return touch(tensor.external->location);
  try {
    touch(read_tensor(tensor, "fuzz").data);
  } catch (const Error&) {
  }
}

void touch_nodes(const std::vector<OnnxNode>& nodes) {
  for (const OnnxNode& node : nodes) {
    touch(node.name + node.op_type + node.domain);
    for (const std::string& input : node.inputs) touch(input);
    for (const std::string& output : node.outputs) touch(output);
    for (const OnnxAttribute& attribute : node.attributes) {
      touch(attribute.name);
      if (const auto* text = std::get_if<std::string>(&attribute.value)) touch(*text);
      if (const auto* tensors = std::get_if<std::vector<OnnxTensor>>(&attribute.value)) {
        for (const OnnxTensor& tensor : *tensors) touch_tensor(tensor);
      }
      for (const OnnxGraph& graph : attribute.graphs) touch_graph(graph);
    }
  }
}

void touch_graph(const OnnxGraph& graph) {
  touch_nodes(graph.nodes);
  for (const OnnxTensor& tensor : graph.initializers) touch_tensor(tensor);
  for (const auto* values : {&graph.inputs, &graph.outputs, &graph.values}) {
    for (const OnnxValue& value : *values) touch(value.name + value.kind);
  }
}

}  // namespace
}  // namespace sluice::io::formats

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::io;
  using namespace sluice::io::formats;
  try {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const OnnxModel model = read_onnx(ByteSource(input, "fuzz"));
    touch_graph(model.graph);
    for (const OnnxFunction& function : model.functions) touch_nodes(function.nodes);
    // A model that was read once can be written and read again: an error here is a bug.
    const std::string bytes = write_onnx(model);
    if (write_onnx(read_onnx(ByteSource(bytes, "again"))) != bytes) __builtin_trap();
  } catch (const sluice::Error& error) {
    if (std::string_view(error.what()).find("'again'") != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
