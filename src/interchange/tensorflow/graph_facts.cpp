#include "interchange/tensorflow/graph_facts.h"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

using io::formats::GraphDef;
using io::formats::GraphNode;

// A walk along a graph ends after so many nodes: graphs of loops have circles.
constexpr int kMostSteps = 16;
constexpr std::size_t kMostReached = 32;

constexpr std::array kActivations = {"Tanh", "Sigmoid", "Relu",      "Softsign", "Softplus",  "Elu",
                                     "Selu", "Relu6",   "LeakyRelu", "Softmax",  "LogSoftmax"};

template <typename Names>
bool is_one_of(std::string_view name, const Names& names) {
  for (const auto& one : names) {
    if (name == one) return true;
  }
  return false;
}

/// A node's output by name: "node:1".
struct Output {
  std::string node;
  int index = 0;
};

std::optional<Output> output_of(const std::string& input) {
  if (input.starts_with('^')) return {};
  const std::size_t colon = input.rfind(':');
  if (colon == std::string::npos) return Output{input, 0};
  const std::string digits = input.substr(colon + 1);
  const bool is_number = !digits.empty() && digits.size() < 6 &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return {};
  return Output{input.substr(0, colon), std::stoi(digits)};
}

/// A graph with the consumers of its nodes.
class Index {
 public:
  explicit Index(const GraphDef& graph) {
    for (const GraphNode& node : graph.nodes) {
      nodes_[node.name] = &node;
      for (const std::string& input : node.inputs) {
        if (const auto output = output_of(input))
          uses_[output->node].push_back({&node, output->index});
      }
    }
  }

  struct Use {
    const GraphNode* node;
    int output;  ///< of the node that is used
  };
  const std::vector<Use>& uses(std::string_view node) const {
    static const std::vector<Use> none;
    const auto place = uses_.find(node);
    return place == uses_.end() ? none : place->second;
  }
  const GraphNode* find(std::string_view name) const {
    const auto place = nodes_.find(name);
    return place == nodes_.end() ? nullptr : place->second;
  }
  const GraphNode* input(const GraphNode& node, std::size_t number) const {
    if (number >= node.inputs.size()) return nullptr;
    const auto output = output_of(node.inputs[number]);
    return output ? find(output->node) : nullptr;
  }

  /// The constant or variable that an input reads, through operations that do not change it.
  const GraphNode* origin(const GraphNode& node, std::size_t number) const {
    const GraphNode* at = input(node, number);
    for (int step = 0; at != nullptr && step < kMostSteps; ++step) {
      if (is_one_of(at->op, std::array{"Const", "VariableV2", "Variable", "VarHandleOp"}))
        return at;
      if (!is_one_of(at->op, std::array{"Identity", "Enter", "ReadVariableOp", "Transpose",
                                        "Reshape", "Switch"})) {
        return nullptr;
      }
      at = input(*at, 0);
    }
    return nullptr;
  }

  /// The nearest user of an output that has one of the ops, behind operations that only move or add
  /// numbers.
  template <typename Ops, typename Through>
  const GraphNode* next(const std::string& node, const Ops& ops, const Through& through) const {
    std::vector<std::string_view> reached = {node};
    for (std::size_t at = 0; at < reached.size(); ++at) {
      for (const Use& use : uses(reached[at])) {
        if (use.output != 0) continue;
        if (is_one_of(use.node->op, ops)) return use.node;
        const bool goes_on = is_one_of(use.node->op, through) && reached.size() < kMostReached &&
                             !is_one_of(use.node->name, reached);
        if (goes_on) reached.push_back(use.node->name);
      }
    }
    return nullptr;
  }

 private:
  std::map<std::string, const GraphNode*, std::less<>> nodes_;
  std::map<std::string, std::vector<Use>, std::less<>> uses_;
};

constexpr std::array kSums = {"BiasAdd", "Add", "AddV2"};
constexpr std::array kMoves = {"BiasAdd", "Add", "AddV2", "Reshape", "Identity", "Squeeze", "Cast"};

std::optional<double> scalar_of(const GraphNode* node, const std::string& file) {
  if (node == nullptr || node->op != "Const") return {};
  const auto* attribute = node->find("value");
  const auto* tensor =
      attribute == nullptr ? nullptr : std::get_if<io::formats::StoredTensor>(attribute);
  if (tensor == nullptr || !tensor->sizes.empty() || tensor->type->dtype != base::DType::kFloat32) {
    return {};
  }
  return io::formats::to_host(*tensor, file).values<float>()[0];
}

/// Collects the facts of one graph.
class Facts {
 public:
  Facts(const GraphDef& graph, const std::string& file)
      : graph_(graph), file_(file), index_(graph) {}

  GraphFacts collect() {
    for (const GraphNode& node : graph_.nodes) {
      if (node.op == "MatMul") read_product(node);
      if (node.op == "BlockLSTM") read_block(node, 4, 1);
      if (node.op == "LSTMBlockCell") read_block(node, 3, {});
      if (node.op == "BlockLSTMV2") read_block(node, 4, 1);
    }
    return std::move(facts_);
  }

 private:
  /// A product with a kernel: x kernel + bias, and what stands behind it.
  void read_product(const GraphNode& product) {
    const GraphNode* kernel = index_.origin(product, 1);
    if (kernel == nullptr) return;
    const GraphNode* sum = index_.next(product.name, kSums, std::array{"Reshape", "Identity"});
    const std::string& behind = sum == nullptr ? product.name : sum->name;
    const GraphNode* split = index_.next(behind, std::array{"Split"}, std::array{"Identity"});
    if (split != nullptr) return read_gates(kernel->name, *split);
    const GraphNode* activation = index_.next(behind, kActivations, kMoves);
    if (activation != nullptr) facts_.activation[kernel->name] = lower(activation->op);
  }

  /// i, j, f, o = split(...)
  void read_gates(const std::string& kernel, const GraphNode& split) {
    const auto* parts = split.find("num_split");
    const auto* number = parts == nullptr ? nullptr : std::get_if<std::int64_t>(parts);
    if (number == nullptr || *number != 4) return;
    for (const Index::Use& use : index_.uses(split.name)) {
      if (use.output == 1 && is_one_of(use.node->op, kActivations)) {
        facts_.activation[kernel] = lower(use.node->op);
      }
      if (use.output != 2 || !is_one_of(use.node->op, std::array{"Add", "AddV2"})) continue;
      for (std::size_t input = 0; input < 2; ++input) {
        if (const auto bias = scalar_of(index_.origin(*use.node, input), file_)) {
          facts_.forget_bias[kernel] = *bias;
        }
      }
    }
    // A cell names its operations by its scope: cells that clip have "clip_by_value" there.
    const std::string scope = scope_of(split.name);
    if (index_.find(scope + "/clip_by_value") != nullptr) facts_.clips.insert(kernel);
  }

  /// An operation that is a whole LSTM, or a step of one.
  void read_block(const GraphNode& block, std::size_t kernel_input, std::optional<std::size_t> x) {
    const GraphNode* kernel = index_.origin(block, kernel_input);
    if (kernel == nullptr) return;
    facts_.lstm.insert(kernel->name);
    const auto number = [&](const char* name, float usual) {
      const auto* attribute = block.find(name);
      const auto* value = attribute == nullptr ? nullptr : std::get_if<float>(attribute);
      return value == nullptr ? usual : *value;
    };
    // TensorFlow leaves attributes out that have the op's default.
    const bool is_v2 = block.op == "BlockLSTMV2";
    if (is_v2) facts_.lstm_v2.insert(kernel->name);
    facts_.forget_bias[kernel->name] = is_v2 ? 0 : number("forget_bias", 1);
    if (number("cell_clip", is_v2 ? 0 : 3) > 0) facts_.clips.insert(kernel->name);
    if (!x) return;
    const GraphNode* input = index_.input(block, *x);
    for (int step = 0; input != nullptr && step < kMostSteps; ++step) {
      if (input->op == "ReverseV2" || input->op == "ReverseSequence") {
        facts_.backward.insert(kernel->name);
        return;
      }
      if (input->op != "Identity") return;
      input = index_.input(*input, 0);
    }
  }

  const GraphDef& graph_;
  const std::string& file_;
  const Index index_;
  GraphFacts facts_;
};

}  // namespace

GraphFacts facts_of(const GraphDef& graph, const std::string& file) {
  return Facts(graph, file).collect();
}

std::set<std::string> variable_constants(const GraphDef& graph) {
  const Index index(graph);
  std::set<std::string> names;
  for (const GraphNode& node : graph.nodes) {
    if (node.op != "Const") continue;
    for (const Index::Use& use : index.uses(node.name)) {
      const std::string& op = use.node->op;
      const bool reads = (op == "Identity" && use.node->name.starts_with(node.name + "/")) ||
                         use.node->name.ends_with("ReadVariableOp");
      if (reads || op == "Gather" || op == "GatherV2" || op == "ResourceGather") {
        names.insert(node.name);
      }
    }
  }
  return names;
}

}  // namespace sluice::interchange::tensorflow
