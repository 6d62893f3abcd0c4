#include "interchange/onnx/onnx_pooling.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "interchange/onnx/onnx_node_maker.h"

namespace sluice::interchange::onnx {

using io::formats::OnnxFunction;
using io::formats::OnnxModel;
using io::formats::OnnxNode;

namespace {

using Nodes = std::vector<OnnxNode>;

/// mask [time, batch, 1]: which steps belong to their row.
void add_mask(Nodes& nodes) {
  nodes.push_back(node("Shape", {"x"}, {"shape"}));
  nodes.push_back(integers("zero", {0}));
  nodes.push_back(integer("begin", 0));
  nodes.push_back(integer("step", 1));
  nodes.push_back(integers("one", {1}));
  nodes.push_back(integers("two", {2}));
  nodes.push_back(node("Gather", {"shape", "begin"}, {"time"}));
  nodes.push_back(node("Range", {"begin", "time", "step"}, {"steps"}));
  nodes.push_back(node("Unsqueeze", {"steps", "one"}, {"column"}));
  nodes.push_back(node("Cast", {"lengths"}, {"ends"}, {attribute("to", std::int64_t{7})}));
  nodes.push_back(node("Less", {"column", "ends"}, {"inside"}));
  nodes.push_back(node("Unsqueeze", {"inside", "two"}, {"mask"}));
}

void add_mean(Nodes& nodes) {
  add_mask(nodes);
  nodes.push_back(number("nothing", 0));
  nodes.push_back(node("Where", {"mask", "x", "nothing"}, {"kept"}));
  nodes.push_back(
      node("ReduceSum", {"kept", "zero"}, {"sum"}, {attribute("keepdims", std::int64_t{0})}));
  nodes.push_back(node("Cast", {"lengths"}, {"counts"}, {attribute("to", std::int64_t{1})}));
  nodes.push_back(node("Unsqueeze", {"counts", "one"}, {"divisors"}));
  nodes.push_back(node("Div", {"sum", "divisors"}, {"y"}));
}

void add_max(Nodes& nodes) {
  add_mask(nodes);
  nodes.push_back(number("least", -std::numeric_limits<float>::infinity()));
  nodes.push_back(node("Where", {"mask", "x", "least"}, {"kept"}));
  nodes.push_back(node(
      "ReduceMax", {"kept"}, {"y"},
      {attribute("axes", std::vector<std::int64_t>{0}), attribute("keepdims", std::int64_t{0})}));
}

void add_attention(Nodes& nodes, bool has_lengths) {
  if (has_lengths) {
    add_mask(nodes);
  } else {
    nodes.push_back(integers("zero", {0}));
    nodes.push_back(integers("one", {1}));
  }
  nodes.push_back(node("Unsqueeze", {"query", "one"}, {"matrix"}));
  nodes.push_back(node("MatMul", {"x", "matrix"}, {"scores"}));
  std::string scores = "scores";
  if (has_lengths) {
    nodes.push_back(number("least", -std::numeric_limits<float>::infinity()));
    nodes.push_back(node("Where", {"mask", "scores", "least"}, {"kept"}));
    scores = "kept";
  }
  nodes.push_back(node("Softmax", {scores}, {"weights"}, {attribute("axis", std::int64_t{0})}));
  nodes.push_back(node("Mul", {"weights", "x"}, {"weighted"}));
  nodes.push_back(
      node("ReduceSum", {"weighted", "zero"}, {"y"}, {attribute("keepdims", std::int64_t{0})}));
}

/// The bytes of a function, to compare it.
std::string bytes_of(const OnnxFunction& function) {
  OnnxModel model;
  model.ir_version = 8;
  model.graph.name = "none";
  model.functions.push_back(function);
  return io::formats::write_onnx(model);
}

}  // namespace

std::string pooling_operator(std::string_view kind, bool has_lengths) {
  std::string name = kind == "mean" ? "Mean" : kind == "max" ? "Max" : "Attention";
  return has_lengths ? name + "OfRows" : name;
}

std::string_view pooling_kind(std::string_view op_type) {
  if (op_type == "MeanOfRows") return "mean";
  if (op_type == "MaxOfRows") return "max";
  return op_type == "AttentionOfRows" || op_type == "Attention" ? "attention" : "";
}

OnnxFunction pooling_function(std::string_view op_type) {
  OnnxFunction function;
  function.name = op_type;
  function.domain = kPoolingDomain;
  function.opsets[""] = kWrittenOpset;
  function.outputs = {"y"};
  const std::string_view kind = pooling_kind(op_type);
  const bool has_lengths = op_type != "Attention";
  function.inputs = {"x"};
  if (kind == "attention") function.inputs.emplace_back("query");
  if (has_lengths) function.inputs.emplace_back("lengths");
  if (kind == "mean") add_mean(function.nodes);
  if (kind == "max") add_max(function.nodes);
  if (kind == "attention") add_attention(function.nodes, has_lengths);
  return function;
}

void check_pooling_functions(const OnnxModel& model) {
  for (const OnnxFunction& function : model.functions) {
    if (function.domain != kPoolingDomain) continue;
    const bool is_ours = !pooling_kind(function.name).empty() &&
                         bytes_of(function) == bytes_of(pooling_function(function.name));
    if (!is_ours) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' holds a function sluice.{} that is not the one that Sluice writes; export "
                 "the model again",
                 model.path.native(), function.name);
    }
  }
}

}  // namespace sluice::interchange::onnx
