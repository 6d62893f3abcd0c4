#include "interchange/onnx/onnx_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_pooling.h"
#include "interchange/onnx/onnx_subgraph.h"
#include "interchange/onnx/onnx_walk.h"

namespace sluice::interchange {
namespace {

using io::formats::OnnxGraph;
using io::formats::OnnxModel;
using io::formats::OnnxNode;
using io::formats::OnnxTensor;
using io::formats::OnnxValue;
using onnx::Data;
using onnx::Step;
using onnx::StepPointer;
using Names = std::set<std::string, std::less<>>;

constexpr std::size_t kMostNamed = 8;  // in a message
constexpr std::int64_t kOldestOpset = 7;

std::string listed(const std::vector<std::string>& names) {
  const auto shown = std::span(names).first(std::min(names.size(), kMostNamed));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMostNamed ? ", ..." : "");
}

std::string hint(const OnnxModel& model) {
  const std::vector<std::string> names = onnx::recurrent_nodes(model);
  if (names.empty()) return "it has no LSTM, GRU or RNN node that could be taken alone";
  return fmt::format("--subgraph NAME takes a recurrent node alone: {}", listed(names));
}

/// The first output, or the softmax of it if that is an output too.
const OnnxValue& end_with_softmax(const OnnxGraph& graph) {
  const OnnxValue& first = graph.outputs[0];
  for (const OnnxNode& node : graph.nodes) {
    const bool is_softmax = node.op_type == "Softmax" || node.op_type == "LogSoftmax";
    if (!is_softmax || node.inputs.empty() || node.outputs.empty() || node.inputs[0] != first.name)
      continue;
    const auto found = std::ranges::find(graph.outputs, node.outputs[0], &OnnxValue::name);
    if (found != graph.outputs.end()) return *found;
  }
  return first;
}

/// The graph output that the chain ends at.
const OnnxValue& choose_output(const OnnxModel& model, const ReadOptions& options) {
  const std::vector<OnnxValue>& outputs = model.graph.outputs;
  if (outputs.empty()) {
    base::fail(ErrorCode::kFormat, "'{}' has no outputs", model.path.native());
  }
  const std::optional<std::string> name = options.find("output");
  if (!name) return end_with_softmax(model.graph);
  const auto found = std::ranges::find(outputs, *name, &OnnxValue::name);
  if (found == outputs.end()) {
    std::vector<std::string> names;
    for (const OnnxValue& output : outputs) names.push_back(output.name);
    base::fail(ErrorCode::kNotFound, "'{}' has no output '{}'; it has: {}", model.path.native(),
               *name, listed(names));
  }
  return *found;
}

/// The nodes that `output` depends on, in the graph's order, in which a node follows its inputs.
std::vector<const OnnxNode*> nodes_before(const OnnxGraph& graph, const std::string& output) {
  Names needed{output};
  std::vector<const OnnxNode*> nodes;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool is_needed = std::ranges::any_of(node->outputs, [&](const std::string& name) {
      return !name.empty() && needed.contains(name);
    });
    if (!is_needed) continue;
    nodes.push_back(&*node);
    needed.insert(node->inputs.begin(), node->inputs.end());
  }
  std::ranges::reverse(nodes);
  return nodes;
}

void refuse_unknown(const OnnxModel& model, const std::vector<const OnnxNode*>& nodes) {
  std::vector<std::string> unknown;
  Names types;
  for (const OnnxNode* node : nodes) {
    if (onnx::Walk::knows(*node) || !types.insert(node->op_type).second) continue;
    const std::string domain = node->domain.empty() ? "" : node->domain + ".";
    unknown.push_back(fmt::format("{}{} ('{}')", domain, node->op_type, onnx::name_of(*node)));
  }
  if (unknown.empty()) return;
  base::fail(ErrorCode::kUnsupported, "'{}' has nodes that Sluice does not read: {}; {}",
             model.path.native(), listed(unknown), hint(model));
}

/// Reads a whole graph.
class GraphReader {
 public:
  GraphReader(const OnnxModel& model, std::int64_t opset, Account& account)
      : model_(model), account_(account), walk_(model.path, opset, account) {}

  StepPointer read(const ReadOptions& options) {
    const OnnxValue& output = choose_output(model_, options);
    const std::vector<const OnnxNode*> nodes = nodes_before(model_.graph, output.name);
    refuse_unknown(model_, nodes);
    for (const OnnxTensor& tensor : model_.graph.initializers) {
      walk_.set(tensor.name, onnx::Constant{&tensor, {}});
    }
    for (const OnnxValue& input : model_.graph.inputs) {
      if (walk_.find(input.name) == nullptr) walk_.add_input(input);
    }
    for (const OnnxNode* node : nodes) walk_.visit(*node);
    if (walk_.last_recurrent() == nullptr) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' has no LSTM, GRU or RNN before its output '{}'; --set output=NAME takes "
                 "another output",
                 model_.path.native(), output.name);
    }
    return finish(output);
  }

 private:
  StepPointer finish(const OnnxValue& output) {
    const onnx::Value* value = walk_.find(output.name);
    const auto* data = value == nullptr ? nullptr : std::get_if<Data>(value);
    if (data == nullptr) {
      base::fail(ErrorCode::kUnsupported, "'{}': the output '{}' does not depend on an input",
                 model_.path.native(), output.name);
    }
    const StepPointer chain = walk_.settle(*data, fmt::format("the output '{}'", output.name));
    const Step* root = chain.get();
    while (root->before != nullptr) root = root->before.get();
    const auto& input = std::get<Data>(*walk_.find(root->name));
    account_.find(
        fmt::format("the input '{}' has the axes {}", root->name, walk_.describe_axes(input.axes)));
    account_.find(fmt::format("the output '{}' has the axes {}", output.name,
                              walk_.describe_axes(data->axes)));
    if (model_.graph.outputs.size() > 1) note_other_outputs(output);
    return chain;
  }

  void note_other_outputs(const OnnxValue& taken) {
    std::vector<std::string> others;
    for (const OnnxValue& output : model_.graph.outputs) {
      if (output.name != taken.name) others.push_back(output.name);
    }
    account_.assume(
        fmt::format("the chain ends at the output '{}' (--set output=NAME says "
                    "otherwise)",
                    taken.name));
    account_.leave_out(fmt::format("the outputs {}", listed(others)));
  }

  const OnnxModel& model_;
  Account& account_;
  onnx::Walk walk_;
};

/// The layers of a chain, first to last; takes their tensors.
std::vector<SourceLayer> take_layers(StepPointer chain) {
  std::vector<SourceLayer> layers;
  for (const Step* step = chain.get(); step->layer != nullptr; step = step->before.get()) {
    SourceLayer layer = std::move(*step->layer);
    if (auto* linear = std::get_if<LinearLayer>(&layer)) {
      if (step->bias) linear->bias = step->bias;
      if (step->activation) linear->activation = *step->activation;
    }
    layers.push_back(std::move(layer));
  }
  std::ranges::reverse(layers);
  return layers;
}

}  // namespace

SourceModel read_onnx_model(const std::filesystem::path& path, const ReadOptions& options) {
  const OnnxModel file = io::formats::read_onnx(path);
  SourceModel model;
  model.format = "a model of ONNX (.onnx)";
  model.path = path.native();
  const auto opset = file.opsets.find("");
  const std::int64_t version = opset == file.opsets.end() ? 0 : opset->second;
  if (version < kOldestOpset) {
    base::fail(ErrorCode::kUnsupported,
               "'{}' uses version {} of ONNX's operators; Sluice reads version {} and later "
               "(onnx.version_converter converts a model)",
               path.native(), version, kOldestOpset);
  }
  model.account.find(
      fmt::format("operators of ONNX, version {}, written by '{}'", version, file.producer_name));
  onnx::check_pooling_functions(file);
  StepPointer chain;
  if (options.subgraph.empty()) {
    chain = GraphReader(file, version, model.account).read(options);
  } else {
    chain = onnx::read_subgraph(file, options.subgraph, model.account);
  }
  model.layers = take_layers(std::move(chain));
  return model;
}

}  // namespace sluice::interchange
