#include "interchange/onnx/onnx_write_recurrent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "interchange/onnx/onnx_node_maker.h"

namespace sluice::interchange::onnx {
namespace {

using io::HostTensor;
using io::formats::OnnxAttribute;
using io::formats::OnnxGraph;
using io::formats::OnnxNode;
using Cells = std::vector<const SourceCell*>;

std::string onnx_name(const Activation& activation, const std::string& layer) {
  if (activation.is("sigmoid")) return "Sigmoid";
  if (activation.is("tanh")) return "Tanh";
  if (activation.is("relu")) return "Relu";
  if (activation.is("hard_sigmoid")) return "HardSigmoid";
  base::fail(ErrorCode::kUnsupported, "{} has the activation '{}', which is not written", layer,
             activation.name);
}

void check_cell(const SourceCell& cell, const std::string& layer) {
  SLUICE_CHECK(cell.convention == Convention::kOnnx,
               "{} has the layout of {}; convert its cells to that of ONNX first", layer,
               name_of(cell.convention));
  SLUICE_CHECK(cell.forget_bias == 0 && !cell.keeps_by_complement,
               "{} has an option that ONNX lacks; make its cells of canonical ones", layer);
  if (cell.output != cell.hidden) {
    base::fail(ErrorCode::kUnsupported, "{} has a projection, which ONNX lacks", layer);
  }
}

/// The tensors of all directions, one after the other; a cell without it has zeros.
HostTensor stacked(const Cells& cells, const char* name, std::vector<std::int64_t> sizes) {
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(cells.size()));
  HostTensor result = HostTensor::make(base::DType::kFloat32, base::Shape(sizes));
  const std::size_t size = result.data.size() / cells.size();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const HostTensor* tensor = cells[i]->find(name);
    if (tensor == nullptr) continue;
    SLUICE_CHECK(tensor->data.size() == size, "'{}' has the shape {} instead of {} numbers", name,
                 tensor->shape.to_string(), size / sizeof(float));
    std::ranges::copy(tensor->data, result.data.begin() + static_cast<std::ptrdiff_t>(i * size));
  }
  return result;
}

bool any_has(const Cells& cells, const char* name) {
  return std::ranges::any_of(cells,
                             [&](const SourceCell* cell) { return cell->find(name) != nullptr; });
}

/// Activations and their numbers, if they are not those that ONNX assumes.
void add_activations(std::vector<OnnxAttribute>& attributes, const Cells& cells,
                     const std::string& layer) {
  std::vector<std::string> names;
  std::vector<float> alphas, betas;
  bool is_usual = true;
  const auto add = [&](const Activation& activation, std::string_view usual) {
    names.push_back(onnx_name(activation, layer));
    is_usual = is_usual && activation.is(usual);
    if (!activation.is("hard_sigmoid")) return;
    alphas.push_back(static_cast<float>(activation.alpha));
    betas.push_back(static_cast<float>(activation.beta));
  };
  for (const SourceCell* cell : cells) {
    if (cell->kind != CellKind::kRnn) add(cell->gate, "sigmoid");
    add(cell->candidate, "tanh");
    if (cell->kind == CellKind::kLstm) add(cell->state, "tanh");
  }
  if (is_usual) return;
  attributes.push_back(attribute("activations", names));
  if (alphas.empty()) return;
  attributes.push_back(attribute("activation_alpha", alphas));
  attributes.push_back(attribute("activation_beta", betas));
}

/// Adds the node of cells with equal sizes.
void add_node(OnnxGraph& graph, const std::string& layer, const Cells& cells, bool is_backward,
              const std::string& prefix, const RecurrentValues& values) {
  const SourceCell& cell = *cells[0];
  for (const SourceCell* one : cells) check_cell(*one, layer);
  const std::int64_t gates = cell.kind == CellKind::kLstm ? 4 : cell.kind == CellKind::kGru ? 3 : 1;
  const auto add_tensor = [&](const char* name, const char* suffix,
                              std::vector<std::int64_t> sizes) {
    graph.initializers.push_back(
        io::formats::to_onnx(stacked(cells, name, std::move(sizes)), prefix + suffix));
    return prefix + suffix;
  };
  OnnxNode made = node(std::string(name_of(cell.kind)), {values.input}, {});
  made.name = prefix + "." + made.op_type;  // its output has the name of the layer
  made.inputs.push_back(add_tensor("w", ".W", {gates * cell.hidden, cell.input}));
  made.inputs.push_back(add_tensor("r", ".R", {gates * cell.hidden, cell.hidden}));
  made.inputs.push_back(any_has(cells, "b") ? add_tensor("b", ".B", {2 * gates * cell.hidden})
                                            : "");
  made.inputs.insert(made.inputs.end(), {values.lengths, values.h0});
  if (cell.kind == CellKind::kLstm) {
    made.inputs.push_back(values.c0);
    made.inputs.push_back(any_has(cells, "p") ? add_tensor("p", ".P", {3 * cell.hidden}) : "");
  }
  while (made.inputs.back().empty()) made.inputs.pop_back();
  made.outputs = {prefix + ".Y", values.hn.empty() ? prefix + ".Y_h" : values.hn};
  if (cell.kind == CellKind::kLstm && !values.cn.empty()) made.outputs.push_back(values.cn);
  made.attributes = {attribute("hidden_size", cell.hidden)};
  const std::string direction = cells.size() == 2 ? "bidirectional"
                                : is_backward     ? "reverse"
                                                  : "forward";
  made.attributes.push_back(attribute("direction", direction));
  if (cell.kind == CellKind::kGru) {
    made.attributes.push_back(
        attribute("linear_before_reset", std::int64_t{cell.reset_after ? 1 : 0}));
  }
  add_activations(made.attributes, cells, layer);
  graph.nodes.push_back(std::move(made));
}

/// Y [time, directions, batch, hidden] to [time, batch, features], and Y_h [directions, batch,
/// hidden] to [batch, features].
void join_directions(OnnxGraph& graph, bool has_two, const std::string& prefix,
                     const std::string& output, const std::string& last) {
  using Sizes = std::vector<std::int64_t>;
  const std::string y_h = graph.nodes.back().outputs[1];
  if (!has_two) {
    graph.nodes.push_back(integers(prefix + ".axis", {1}));
    graph.nodes.push_back(node("Squeeze", {prefix + ".Y", prefix + ".axis"}, {output}));
    if (last.empty()) return;
    graph.nodes.push_back(integers(prefix + ".first_axis", {0}));
    graph.nodes.push_back(node("Squeeze", {y_h, prefix + ".first_axis"}, {last}));
    return;
  }
  graph.nodes.push_back(node("Transpose", {prefix + ".Y"}, {prefix + ".rows"},
                             {attribute("perm", Sizes{0, 2, 1, 3})}));
  graph.nodes.push_back(integers(prefix + ".joined", {0, 0, -1}));
  graph.nodes.push_back(node("Reshape", {prefix + ".rows", prefix + ".joined"}, {output}));
  if (last.empty()) return;
  graph.nodes.push_back(
      node("Transpose", {y_h}, {prefix + ".last_rows"}, {attribute("perm", Sizes{1, 0, 2})}));
  graph.nodes.push_back(integers(prefix + ".last_joined", {0, -1}));
  graph.nodes.push_back(node("Reshape", {prefix + ".last_rows", prefix + ".last_joined"}, {last}));
}

}  // namespace

void write_recurrent(OnnxGraph& graph, const RecurrentLayer& layer, const std::string& prefix,
                     const RecurrentValues& values) {
  const bool has_two = layer.forward && layer.backward;
  const bool are_alike = has_two && layer.forward->kind == layer.backward->kind &&
                         layer.forward->hidden == layer.backward->hidden &&
                         layer.forward->reset_after == layer.backward->reset_after;
  if (!has_two || are_alike) {
    Cells cells;
    if (layer.forward) cells.push_back(&*layer.forward);
    if (layer.backward) cells.push_back(&*layer.backward);
    add_node(graph, layer.name, cells, !layer.forward, prefix, values);
    return join_directions(graph, has_two, prefix, values.output, values.last);
  }
  std::vector<std::string> outputs, lasts;
  for (const bool is_backward : {false, true}) {
    const std::string own = prefix + (is_backward ? ".backward" : ".forward");
    const SourceCell& cell = is_backward ? *layer.backward : *layer.forward;
    add_node(graph, layer.name, {&cell}, is_backward, own, values);
    outputs.push_back(own + ".output");
    lasts.push_back(own + ".last");
    join_directions(graph, false, own, outputs.back(), values.last.empty() ? "" : lasts.back());
  }
  graph.nodes.push_back(
      node("Concat", outputs, {values.output}, {attribute("axis", std::int64_t{2})}));
  if (values.last.empty()) return;
  graph.nodes.push_back(node("Concat", lasts, {values.last}, {attribute("axis", std::int64_t{1})}));
}

}  // namespace sluice::interchange::onnx
