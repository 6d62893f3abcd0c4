#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/formats/tensorflow/graph_def.h"
#include "io/host_tensor.h"

namespace sluice::interchange::tensorflow {

/// TensorFlow's numbers of types.
inline constexpr std::int32_t kFloat = 1, kInt32 = 3, kInt64 = 9, kBool = 10, kVariant = 21;

/// Adds nodes to a graph or to the body of a function. A value is named "node:output:0" in a
/// function, and "node" or "node:1" in a graph; arguments of a function are values by their names.
class GraphBuilder {
 public:
  using Value = std::string;
  using Values = std::vector<Value>;
  using Attributes = io::formats::GraphAttributes;

  enum class Place { kGraph, kFunction };
  explicit GraphBuilder(Place place) : place_(place) {}

  /// Adds a node with a name that begins with `name`, and returns that name.
  std::string add_node(std::string_view op, std::string_view name, Values inputs,
                       Attributes attributes);
  /// The output of a node: `output` is its name in TensorFlow's definition of the op.
  Value output(const std::string& node, std::string_view output, int index = 0) const;

  Value constant(std::string_view name, const io::HostTensor& tensor);
  Value scalar(std::int32_t value);
  Value scalar(float value);
  Value vector(std::initializer_list<std::int32_t> values);

  /// Ops of floats.
  Value unary(std::string_view op, const Value& x);                   ///< "Sigmoid", "Tanh"
  Value binary(std::string_view op, const Value& a, const Value& b);  ///< "AddV2", "Mul", "Sub"
  Value matmul(const Value& a, const Value& b);
  Value row(const Value& x, const Value& index);  ///< x[index]
  Value concat(const Values& values, std::int32_t axis);
  Values split(const Value& x, int parts);  ///< along the last axis
  Value slice(const Value& x, std::initializer_list<std::int32_t> begin,
              std::initializer_list<std::int32_t> size);
  Value reshape(const Value& x, const Value& shape);
  Value reduce(std::string_view op, const Value& x, std::int32_t axis, bool keeps_axis);
  /// Ops of sizes (int32).
  Value size_of_axis(const Value& x, std::int32_t axis);
  Value pack(const Values& scalars);

  std::vector<io::formats::GraphNode> take_nodes() { return std::move(nodes_); }

 private:
  Place place_;
  std::vector<io::formats::GraphNode> nodes_;
  std::set<std::string, std::less<>> names_;
};

/// An attribute that holds a type.
inline io::formats::GraphAttribute type_of(std::int32_t number) {
  return io::formats::TensorflowType{number};
}

}  // namespace sluice::interchange::tensorflow
