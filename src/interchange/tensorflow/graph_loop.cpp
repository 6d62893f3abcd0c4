#include "interchange/tensorflow/graph_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::interchange::tensorflow {
namespace {

using io::formats::FunctionName;
using io::formats::GraphFunction;
using io::formats::TensorflowShape;
using io::formats::TensorflowType;
using Value = GraphBuilder::Value;
using Values = GraphBuilder::Values;

/// A value that every step sees unchanged.
struct Fixed {
  std::string name;  ///< of the argument
  Value value;       ///< in the graph
  std::vector<std::int64_t> sizes;
};

/// A step of a cell, as nodes in the body of a function whose arguments are x (what comes of the
/// input, [batch, gates * hidden]), the states h and c, and the names of Fixed.
class Step {
 public:
  Step(GraphBuilder& body, const SourceCell& cell) : body_(body), cell_(cell) {}

  struct States {
    Value h, c;
  };
  States add(const Value& x) {
    if (cell_.kind == CellKind::kLstm) return add_lstm(x);
    if (cell_.kind == CellKind::kGru) return add_gru(x);
    const Value sum = body_.binary("AddV2", x, body_.matmul("h", "hidden_kernel"));
    return {add_activation(body_, cell_.candidate, sum), ""};
  }

 private:
  Value gate(const Value& x) { return add_activation(body_, cell_.gate, x); }
  Value peep(const char* name, const Value& sum, const Value& c) {
    return cell_.find(name) == nullptr ? sum
                                       : body_.binary("AddV2", sum, body_.binary("Mul", c, name));
  }

  States add_lstm(const Value& x) {
    const Values sums =
        body_.split(body_.binary("AddV2", x, body_.matmul("h", "hidden_kernel")), 4);
    const Value i = gate(peep("w_i_diag", sums[0], "c"));
    const Value j = add_activation(body_, cell_.candidate, sums[1]);
    const Value f = gate(peep("w_f_diag", sums[2], "c"));
    const Value c = body_.binary("AddV2", body_.binary("Mul", f, "c"), body_.binary("Mul", i, j));
    const Value o = gate(peep("w_o_diag", sums[3], c));
    const Value m = body_.binary("Mul", o, add_activation(body_, cell_.state, c));
    return {cell_.find("projection") == nullptr ? m : body_.matmul(m, "projection"), c};
  }

  /// h = u * h + (1 - u) * c
  States add_gru(const Value& x) {
    const Values of_input = body_.split(x, 3);
    const Values of_state =
        body_.split(body_.matmul("h", "hidden_kernel"), cell_.reset_after ? 3 : 2);
    const Value r = gate(body_.binary("AddV2", of_input[0], of_state[0]));
    const Value u = gate(body_.binary("AddV2", of_input[1], of_state[1]));
    const Value before =
        cell_.reset_after
            ? body_.binary("Mul", r, body_.binary("AddV2", of_state[2], "hidden_bias"))
            : body_.matmul(body_.binary("Mul", r, "h"), "candidate_kernel");
    const Value c =
        add_activation(body_, cell_.candidate, body_.binary("AddV2", of_input[2], before));
    const Value change = body_.binary("Mul", u, body_.binary("Sub", "h", c));
    return {body_.binary("AddV2", c, change), ""};
  }

  GraphBuilder& body_;
  const SourceCell& cell_;
};

/// The values of a loop in order, as arguments, types and shapes.
class LoopValues {
 public:
  void add(std::string name, std::int32_t type, TensorflowShape shape, Value start) {
    arguments_.push_back({.name = std::move(name), .type = type, .type_attribute = ""});
    types_.push_back({type});
    shapes_.push_back(std::move(shape));
    starts_.push_back(std::move(start));
  }
  const std::vector<GraphFunction::Argument>& arguments() const { return arguments_; }
  const std::vector<TensorflowType>& types() const { return types_; }
  const std::vector<TensorflowShape>& shapes() const { return shapes_; }
  const Values& starts() const { return starts_; }

 private:
  std::vector<GraphFunction::Argument> arguments_;
  std::vector<TensorflowType> types_;
  std::vector<TensorflowShape> shapes_;
  Values starts_;
};

/// Adds the loop of one cell.
class Loop {
 public:
  Loop(GraphBuilder& graph, std::vector<GraphFunction>& functions, const WrittenCell& written)
      : graph_(graph), functions_(functions), scope_(written.scope), cell_(written.cell) {
    for (const auto& [name, tensor] : cell_.tensors) tensors_.push_back({name, &tensor});
    for (const auto& [name, tensor] : variables_of(written)) {
      variables_.push_back(add_variable(graph_, name, *tensor));
    }
  }

  Value add(const Value& x) {
    const Value steps = graph_.size_of_axis(x, 0), batch = graph_.size_of_axis(x, 1);
    const Value of_input = product_of_input(x, steps, batch);
    const auto state = [&](std::int64_t width) {
      const Value shape = graph_.pack({batch, graph_.scalar(static_cast<std::int32_t>(width))});
      const std::string node =
          graph_.add_node("Fill", "zeros", {shape, graph_.scalar(0.0F)},
                          {{"T", type_of(kFloat)}, {"index_type", type_of(kInt32)}});
      return graph_.output(node, "output");
    };
    const std::string list =
        graph_.add_node("TensorListReserve", "outputs", {element_shape(), steps},
                        {{"element_dtype", type_of(kFloat)}, {"shape_type", type_of(kInt32)}});
    const TensorflowShape scalar{}, any{.is_known_rank = false, .sizes = {}};
    LoopValues values;
    values.add("step", kInt32, scalar, graph_.scalar(0));
    values.add("steps", kInt32, scalar, steps);
    values.add("outputs", kVariant, any, graph_.output(list, "handle"));
    values.add("h", kFloat, {.sizes = {-1, cell_.output}}, state(cell_.output));
    if (cell_.kind == CellKind::kLstm) {
      values.add("c", kFloat, {.sizes = {-1, cell_.hidden}}, state(cell_.hidden));
    }
    values.add("x", kFloat, {.sizes = {-1, -1, gates() * cell_.hidden}}, of_input);
    for (const Fixed& fixed : fixed_values()) {
      values.add(fixed.name, kFloat, {.sizes = fixed.sizes}, fixed.value);
    }
    const std::string loop = graph_.add_node("StatelessWhile", scope_ + "/while", values.starts(),
                                             {{"T", values.types()},
                                              {"cond", FunctionName{add_condition(values), false}},
                                              {"body", FunctionName{add_body(values), false}},
                                              {"output_shapes", values.shapes()},
                                              {"parallel_iterations", std::int64_t{10}}});
    const std::string stack = graph_.add_node(
        "TensorListStack", "outputs", {graph_.output(loop, "output", 2), element_shape()},
        {{"element_dtype", type_of(kFloat)}, {"num_elements", std::int64_t{-1}}});
    return graph_.output(stack, "tensor");
  }

 private:
  std::int64_t gates() const {
    if (cell_.kind == CellKind::kRnn) return 1;
    return cell_.kind == CellKind::kLstm ? 4 : 3;
  }
  Value element_shape() { return graph_.vector({-1, static_cast<std::int32_t>(cell_.output)}); }
  std::string function_name(const char* end) const {
    std::string name = fmt::format("{}_{}", scope_, end);
    std::ranges::replace(name, '/', '_');
    return name;
  }
  Value variable(std::string_view name) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].first == name) return variables_[i];
    }
    base::fail(ErrorCode::kInternal, "a cell of TensorFlow lacks '{}'", name);
  }
  /// The rows of a kernel that act on the input, or those that act on the state.
  Value input_rows(std::string_view kernel) {
    return graph_.slice(variable(kernel), {0, 0}, {static_cast<std::int32_t>(cell_.input), -1});
  }
  Value state_rows(std::string_view kernel) {
    return graph_.slice(variable(kernel), {static_cast<std::int32_t>(cell_.input), 0}, {-1, -1});
  }

  /// x kernel + bias, [time, batch, gates * hidden].
  Value product_of_input(const Value& x, const Value& steps, const Value& batch) {
    Value kernel, bias;
    if (cell_.kind != CellKind::kGru) {
      kernel = input_rows("kernel");
      bias = variable("bias");
    } else if (cell_.reset_after) {
      kernel = graph_.concat({input_rows("gate_kernel"), variable("input_kernel")}, 1);
      bias = graph_.concat({variable("gate_bias"), variable("input_bias")}, 0);
    } else {
      kernel = graph_.concat({input_rows("gate_kernel"), input_rows("candidate_kernel")}, 1);
      bias = graph_.concat({variable("gate_bias"), variable("candidate_bias")}, 0);
    }
    const Value flat =
        graph_.reshape(x, graph_.vector({-1, static_cast<std::int32_t>(cell_.input)}));
    const Value sum = graph_.binary("AddV2", graph_.matmul(flat, kernel), bias);
    const auto width = static_cast<std::int32_t>(gates() * cell_.hidden);
    return graph_.reshape(sum, graph_.pack({steps, batch, graph_.scalar(width)}));
  }

  std::vector<Fixed> fixed_values() {
    const std::int64_t h = cell_.hidden, p = cell_.output;
    if (cell_.kind == CellKind::kGru && cell_.reset_after) {
      const Value kernel = graph_.concat({state_rows("gate_kernel"), variable("hidden_kernel")}, 1);
      return {{"hidden_kernel", kernel, {h, 3 * h}}, {"hidden_bias", variable("hidden_bias"), {h}}};
    }
    if (cell_.kind == CellKind::kGru) {
      return {{"hidden_kernel", state_rows("gate_kernel"), {h, 2 * h}},
              {"candidate_kernel", state_rows("candidate_kernel"), {h, h}}};
    }
    std::vector<Fixed> fixed = {{"hidden_kernel", state_rows("kernel"), {p, gates() * h}}};
    for (const char* name : {"w_i_diag", "w_f_diag", "w_o_diag"}) {
      if (cell_.find(name) != nullptr) fixed.push_back({name, variable(name), {h}});
    }
    if (cell_.find("projection") != nullptr) {
      fixed.push_back({"projection", variable("projection"), {h, p}});
    }
    return fixed;
  }

  std::string add_condition(const LoopValues& values) {
    GraphBuilder body(GraphBuilder::Place::kFunction);
    const std::string less =
        body.add_node("Less", "Less", {"step", "steps"}, {{"T", type_of(kInt32)}});
    GraphFunction function;
    function.name = function_name("condition");
    function.inputs = values.arguments();
    function.outputs = {{.name = "goes_on", .type = kBool, .type_attribute = ""}};
    function.returns = {{"goes_on", body.output(less, "z")}};
    function.nodes = body.take_nodes();
    functions_.push_back(std::move(function));
    return functions_.back().name;
  }

  std::string add_body(const LoopValues& values) {
    GraphBuilder body(GraphBuilder::Place::kFunction);
    const Step::States states = Step(body, cell_).add(body.row("x", "step"));
    const std::string outputs =
        body.add_node("TensorListSetItem", "TensorListSetItem", {"outputs", "step", states.h},
                      {{"element_dtype", type_of(kFloat)}});
    const std::string next =
        body.add_node("AddV2", "next", {"step", body.scalar(1)}, {{"T", type_of(kInt32)}});
    GraphFunction function;
    function.name = function_name("body");
    function.inputs = values.arguments();
    for (const GraphFunction::Argument& argument : values.arguments()) {
      GraphFunction::Argument result = argument;
      result.name += "_next";
      // Most values go through unchanged.
      function.returns[result.name] = argument.name;
      function.outputs.push_back(std::move(result));
    }
    function.returns["step_next"] = body.output(next, "z");
    function.returns["outputs_next"] = body.output(outputs, "output_handle");
    function.returns["h_next"] = states.h;
    if (!states.c.empty()) function.returns["c_next"] = states.c;
    function.nodes = body.take_nodes();
    functions_.push_back(std::move(function));
    return functions_.back().name;
  }

  GraphBuilder& graph_;
  std::vector<GraphFunction>& functions_;
  const std::string scope_;
  const SourceCell& cell_;
  std::vector<std::pair<std::string, const io::HostTensor*>> tensors_;
  Values variables_;
};

}  // namespace

Value add_variable(GraphBuilder& graph, const std::string& name, const io::HostTensor& tensor) {
  const Value value = graph.constant(name, tensor);
  return graph.output(graph.add_node("Identity", name + "/read", {value}, {{"T", type_of(kFloat)}}),
                      "output");
}

Value add_activation(GraphBuilder& graph, const Activation& activation, const Value& x) {
  if (activation.is("linear")) return x;
  if (activation.is("tanh")) return graph.unary("Tanh", x);
  if (activation.is("sigmoid")) return graph.unary("Sigmoid", x);
  if (activation.is("relu")) return graph.unary("Relu", x);
  if (activation.is("softmax")) return graph.unary("Softmax", x);
  if (activation.is("log_softmax")) return graph.unary("LogSoftmax", x);
  if (activation.is("hard_sigmoid")) {
    const Value slope = graph.scalar(static_cast<float>(activation.alpha));
    const Value shift = graph.scalar(static_cast<float>(activation.beta));
    const Value line = graph.binary("AddV2", graph.binary("Mul", x, slope), shift);
    const Value positive = graph.binary("Maximum", line, graph.scalar(0.0F));
    return graph.binary("Minimum", positive, graph.scalar(1.0F));
  }
  base::fail(ErrorCode::kUnsupported, "the activation '{}' is not written to TensorFlow's graphs",
             activation.name);
}

Value add_recurrent(GraphBuilder& graph, std::vector<GraphFunction>& functions,
                    const WrittenCell& cell, const Value& x) {
  return Loop(graph, functions, cell).add(x);
}

}  // namespace sluice::interchange::tensorflow
