#include "interchange/tensorflow/graph_builder.h"

#include <fmt/format.h>

namespace sluice::interchange::tensorflow {

using io::HostTensor;
using Value = GraphBuilder::Value;

std::string GraphBuilder::add_node(std::string_view op, std::string_view name, Values inputs,
                                   Attributes attributes) {
  std::string unique(name);
  for (int number = 1; !names_.insert(unique).second; ++number) {
    unique = fmt::format("{}_{}", name, number);
  }
  nodes_.push_back({.name = unique,
                    .op = std::string(op),
                    .inputs = std::move(inputs),
                    .device = "",
                    .attributes = std::move(attributes)});
  return unique;
}

Value GraphBuilder::output(const std::string& node, std::string_view output, int index) const {
  if (place_ == Place::kFunction) return fmt::format("{}:{}:{}", node, output, index);
  return index == 0 ? node : fmt::format("{}:{}", node, index);
}

Value GraphBuilder::constant(std::string_view name, const HostTensor& tensor) {
  const std::int32_t type = io::formats::tensorflow_type_of(tensor.dtype);
  const std::string node =
      add_node("Const", name, {},
               {{"dtype", type_of(type)},
                {"value", io::formats::to_stored(tensor, io::formats::tensorflow_types())}});
  return output(node, "output");
}

Value GraphBuilder::scalar(std::int32_t value) {
  return constant("number", HostTensor::copy_of<std::int32_t>(std::span(&value, 1), {}));
}
Value GraphBuilder::scalar(float value) {
  return constant("number", HostTensor::copy_of<float>(std::span(&value, 1), {}));
}
Value GraphBuilder::vector(std::initializer_list<std::int32_t> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return constant("sizes", HostTensor::copy_of<std::int32_t>({values.begin(), values.size()},
                                                             base::Shape{size}));
}

Value GraphBuilder::unary(std::string_view op, const Value& x) {
  const bool is_activation = op == "Relu";
  const std::string_view name = is_activation        ? "activations"
                                : op == "Softmax"    ? "softmax"
                                : op == "LogSoftmax" ? "logsoftmax"
                                                     : "y";
  return output(add_node(op, op, {x}, {{"T", type_of(kFloat)}}), name);
}

Value GraphBuilder::binary(std::string_view op, const Value& a, const Value& b) {
  return output(add_node(op, op, {a, b}, {{"T", type_of(kFloat)}}), "z");
}

Value GraphBuilder::matmul(const Value& a, const Value& b) {
  const std::string node =
      add_node("MatMul", "MatMul", {a, b},
               {{"T", type_of(kFloat)}, {"transpose_a", false}, {"transpose_b", false}});
  return output(node, "product");
}

Value GraphBuilder::row(const Value& x, const Value& index) {
  const std::string node = add_node("GatherV2", "GatherV2", {x, index, scalar(0)},
                                    {{"Tparams", type_of(kFloat)},
                                     {"Tindices", type_of(kInt32)},
                                     {"Taxis", type_of(kInt32)},
                                     {"batch_dims", std::int64_t{0}}});
  return output(node, "output");
}

Value GraphBuilder::concat(const Values& values, std::int32_t axis) {
  Values inputs = values;
  inputs.push_back(scalar(axis));
  const std::string node = add_node("ConcatV2", "concat", inputs,
                                    {{"N", static_cast<std::int64_t>(values.size())},
                                     {"T", type_of(kFloat)},
                                     {"Tidx", type_of(kInt32)}});
  return output(node, "output");
}

GraphBuilder::Values GraphBuilder::split(const Value& x, int parts) {
  const std::string node =
      add_node("Split", "split", {scalar(-1), x},
               {{"num_split", static_cast<std::int64_t>(parts)}, {"T", type_of(kFloat)}});
  Values result;
  for (int part = 0; part < parts; ++part) result.push_back(output(node, "output", part));
  return result;
}

Value GraphBuilder::slice(const Value& x, std::initializer_list<std::int32_t> begin,
                          std::initializer_list<std::int32_t> size) {
  const std::string node = add_node("Slice", "slice", {x, vector(begin), vector(size)},
                                    {{"T", type_of(kFloat)}, {"Index", type_of(kInt32)}});
  return output(node, "output");
}

Value GraphBuilder::reshape(const Value& x, const Value& shape) {
  const std::string node = add_node("Reshape", "Reshape", {x, shape},
                                    {{"T", type_of(kFloat)}, {"Tshape", type_of(kInt32)}});
  return output(node, "output");
}

Value GraphBuilder::reduce(std::string_view op, const Value& x, std::int32_t axis,
                           bool keeps_axis) {
  const std::string node =
      add_node(op, op, {x, scalar(axis)},
               {{"T", type_of(kFloat)}, {"Tidx", type_of(kInt32)}, {"keep_dims", keeps_axis}});
  return output(node, "output");
}

Value GraphBuilder::size_of_axis(const Value& x, std::int32_t axis) {
  const std::string shape =
      add_node("Shape", "Shape", {x}, {{"T", type_of(kFloat)}, {"out_type", type_of(kInt32)}});
  const std::string node =
      add_node("GatherV2", "size", {output(shape, "output"), scalar(axis), scalar(0)},
               {{"Tparams", type_of(kInt32)},
                {"Tindices", type_of(kInt32)},
                {"Taxis", type_of(kInt32)},
                {"batch_dims", std::int64_t{0}}});
  return output(node, "output");
}

Value GraphBuilder::pack(const Values& scalars) {
  const std::string node = add_node("Pack", "pack", scalars,
                                    {{"N", static_cast<std::int64_t>(scalars.size())},
                                     {"T", type_of(kInt32)},
                                     {"axis", std::int64_t{0}}});
  return output(node, "output");
}

}  // namespace sluice::interchange::tensorflow
