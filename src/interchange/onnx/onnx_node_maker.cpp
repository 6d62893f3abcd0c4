#include "interchange/onnx/onnx_node_maker.h"

#include <utility>

namespace sluice::interchange::onnx {

using io::HostTensor;
using io::formats::OnnxAttribute;
using io::formats::OnnxNode;
using io::formats::OnnxTensor;
using Kind = OnnxAttribute::Kind;

namespace {

OnnxAttribute made(std::string name, Kind kind, decltype(OnnxAttribute::value) value) {
  OnnxAttribute attribute;
  attribute.name = std::move(name);
  attribute.kind = kind;
  attribute.value = std::move(value);
  return attribute;
}

OnnxNode constant(std::string output, const HostTensor& tensor) {
  std::vector<OnnxTensor> values{io::formats::to_onnx(tensor)};
  return node("Constant", {}, {std::move(output)},
              {made("value", Kind::kTensor, std::move(values))});
}

}  // namespace

OnnxAttribute attribute(std::string name, std::int64_t value) {
  return made(std::move(name), Kind::kInt, value);
}
OnnxAttribute attribute(std::string name, std::string value) {
  return made(std::move(name), Kind::kString, std::move(value));
}
OnnxAttribute attribute(std::string name, float value) {
  return made(std::move(name), Kind::kFloat, value);
}
OnnxAttribute attribute(std::string name, std::vector<std::int64_t> value) {
  return made(std::move(name), Kind::kInts, std::move(value));
}
OnnxAttribute attribute(std::string name, std::vector<float> value) {
  return made(std::move(name), Kind::kFloats, std::move(value));
}
OnnxAttribute attribute(std::string name, std::vector<std::string> value) {
  return made(std::move(name), Kind::kStrings, std::move(value));
}

OnnxNode node(std::string op_type, std::vector<std::string> inputs,
              std::vector<std::string> outputs, std::vector<OnnxAttribute> attributes) {
  OnnxNode node;
  node.name = outputs.empty() ? "" : outputs[0];
  node.op_type = std::move(op_type);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

OnnxNode integers(std::string output, std::vector<std::int64_t> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return constant(std::move(output), HostTensor::copy_of<std::int64_t>(values, {size}));
}
OnnxNode integer(std::string output, std::int64_t value) {
  return constant(std::move(output), HostTensor::copy_of<std::int64_t>({&value, 1}, {}));
}
OnnxNode number(std::string output, float value) {
  return constant(std::move(output), HostTensor::copy_of<float>({&value, 1}, {}));
}

}  // namespace sluice::interchange::onnx
