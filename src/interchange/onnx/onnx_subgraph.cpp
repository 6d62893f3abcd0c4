#include "interchange/onnx/onnx_subgraph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "sluice/error.h"

namespace sluice::interchange::onnx {

using io::formats::OnnxAttribute;
using io::formats::OnnxFunction;
using io::formats::OnnxGraph;
using io::formats::OnnxModel;
using io::formats::OnnxNode;
using io::formats::OnnxTensor;

namespace {

constexpr std::size_t kMostDepth = 32, kMostPlaces = 200, kMostVisits = 100'000;

/// A list of nodes: a graph's, or a function's.
struct Frame {
  const std::vector<OnnxNode>* nodes;
  const std::vector<OnnxTensor>* initializers = nullptr;  ///< of a graph
  const OnnxFunction* function = nullptr;
  const OnnxNode* caller = nullptr;  ///< the node of the frame outside that holds this one
};

/// A recurrent node and the frames around it, the outermost first.
struct Place {
  const OnnxNode* node;
  std::string path;
  std::vector<Frame> frames;
};

class Finder {
 public:
  explicit Finder(const OnnxModel& model) : model_(model) {
    for (const OnnxFunction& function : model.functions) {
      functions_[{function.domain, function.name}] = &function;
    }
  }

  std::vector<Place> find() {
    look({{&model_.graph.nodes, &model_.graph.initializers}}, "");
    return std::move(places_);
  }

 private:
  void look(const std::vector<Frame>& frames, const std::string& path) {
    if (frames.size() > kMostDepth) return;
    for (const OnnxNode& node : *frames.back().nodes) {
      if (places_.size() >= kMostPlaces || ++visits_ > kMostVisits) return;
      const std::string own = path + name_of(node);
      if (is_recurrent(node)) places_.push_back({&node, own, frames});
      for (const OnnxAttribute& attribute : node.attributes) {
        for (const OnnxGraph& graph : attribute.graphs) {
          look(with(frames, {&graph.nodes, &graph.initializers, nullptr, &node}),
               own + "/" + attribute.name + "/");
        }
      }
      const auto function = functions_.find({node.domain, node.op_type});
      if (function != functions_.end()) {
        look(with(frames, {&function->second->nodes, nullptr, function->second, &node}), own + "/");
      }
    }
  }
  static std::vector<Frame> with(std::vector<Frame> frames, Frame frame) {
    frames.push_back(frame);
    return frames;
  }

  const OnnxModel& model_;
  std::map<std::pair<std::string, std::string>, const OnnxFunction*> functions_;
  std::vector<Place> places_;
  std::size_t visits_ = 0;
};

/// Computes what can be computed; the rest stays unknown.
void try_visit(Walk& walk, const OnnxNode& node) {
  if (!Walk::knows(node)) return;
  try {
    walk.visit(node);
  } catch (const Error&) {
    // A node that the recurrent part does not need, or one whose absence it reports.
  }
}

void add_initializers(Walk& walk, const Frame& frame) {
  if (frame.initializers == nullptr) return;
  for (const OnnxTensor& tensor : *frame.initializers) {
    walk.set(tensor.name, Constant{&tensor, {}});
  }
}

/// Knows what the nodes outside the innermost frame compute of constants.
std::unique_ptr<Walk> outside(const Place& place, const OnnxModel& model, Account& account) {
  const auto opset = model.opsets.find("");
  const std::int64_t version = opset == model.opsets.end() ? 0 : opset->second;
  auto walk = std::make_unique<Walk>(model.path, version, account);
  for (std::size_t index = 0; index < place.frames.size(); ++index) {
    const Frame& frame = place.frames[index];
    if (frame.function != nullptr) {
      auto inside = std::make_unique<Walk>(model.path, version, account);
      const std::vector<std::string>& names = frame.function->inputs;
      for (std::size_t i = 0; i < names.size() && i < frame.caller->inputs.size(); ++i) {
        const Value* value = walk->find(frame.caller->inputs[i]);
        if (value != nullptr) inside->set(names[i], *value);
      }
      walk = std::move(inside);
    }
    add_initializers(*walk, frame);
    if (index + 1 == place.frames.size()) break;
    const OnnxNode* holder = place.frames[index + 1].caller;
    for (const OnnxNode& node : *frame.nodes) {
      if (&node == holder) break;
      try_visit(*walk, node);
    }
  }
  return walk;
}

bool contains(const StepPointer& chain, const std::string& name) {
  for (const Step* step = chain.get(); step != nullptr; step = step->before.get()) {
    const std::string& own = step->name;
    if (own == name || own.starts_with(name + "+") || own.ends_with("+" + name)) return true;
  }
  return false;
}

/// Nodes between recurrent nodes that "directly follow" each other.
bool is_between(const OnnxNode& node) {
  static const std::vector<std::string_view> kNames{"Transpose", "Squeeze", "Unsqueeze", "Reshape",
                                                    "Identity",  "Cast",    "Dropout",   "Concat",
                                                    "Slice",     "Split",   "Gather",    "Shape"};
  return node.domain.empty() && std::ranges::find(kNames, node.op_type) != kNames.end();
}

bool reads_data(const Walk& walk, const OnnxNode& node) {
  return std::ranges::any_of(node.inputs, [&](const std::string& name) {
    const Value* value = walk.find(name);
    return value != nullptr && std::holds_alternative<Data>(*value);
  });
}

StepPointer take(const Place& place, const OnnxModel& model, Account& account) {
  const std::unique_ptr<Walk> made = outside(place, model, account);
  Walk& walk = *made;
  StepPointer chain;
  const OnnxNode& wanted = *place.node;
  const std::string name = name_of(wanted);
  for (const OnnxNode& node : *place.frames.back().nodes) {
    if (&node == &wanted) {
      SLUICE_CHECK(!node.inputs.empty(), "{} has no input", describe(node));
      walk.add_features(node.inputs[0], int_of(node, "layout", 0) == 1);
      walk.visit(node);
      chain = walk.last_recurrent();
    } else if (chain == nullptr || !reads_data(walk, node)) {
      if (!is_recurrent(node)) try_visit(walk, node);
    } else if (is_recurrent(node)) {
      try {
        walk.visit(node);
        const StepPointer& next = walk.last_recurrent();
        if (next->depth > chain->depth && contains(next, name)) chain = next;
      } catch (const Error& error) {
        account.leave_out(fmt::format("{} after it: {}", describe(node), error.what()));
      }
    } else if (is_between(node)) {
      try_visit(walk, node);
    }
  }
  return chain;
}

}  // namespace

std::vector<std::string> recurrent_nodes(const OnnxModel& model) {
  std::vector<std::string> names;
  for (const Place& place : Finder(model).find()) names.push_back(place.path);
  return names;
}

StepPointer read_subgraph(const OnnxModel& model, std::string_view name, Account& account) {
  const std::vector<Place> places = Finder(model).find();
  std::vector<const Place*> found;
  std::vector<std::string> paths;
  for (const Place& place : places) {
    const bool is_output =
        std::ranges::find(place.node->outputs, name) != place.node->outputs.end();
    if (place.path == name || place.node->name == name || is_output) found.push_back(&place);
    paths.push_back(place.path);
  }
  if (found.empty()) {
    base::fail(ErrorCode::kNotFound, "'{}' has no recurrent node '{}'; it has: {}",
               model.path.native(), name,
               paths.empty() ? "none" : fmt::format("{}", fmt::join(paths, ", ")));
  }
  if (found.size() > 1) {
    paths.clear();
    for (const Place* place : found) paths.push_back(place->path);
    base::fail(ErrorCode::kInvalidArgument,
               "'{}' has {} recurrent nodes '{}'; name one by its path: {}", model.path.native(),
               found.size(), name, fmt::join(paths, ", "));
  }
  return take(*found[0], model, account);
}

}  // namespace sluice::interchange::onnx
