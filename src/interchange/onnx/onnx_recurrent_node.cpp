#include "interchange/onnx/onnx_recurrent_node.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"

namespace sluice::interchange::onnx {
namespace {

using io::HostTensor;
using io::formats::OnnxNode;

CellKind kind_of(const OnnxNode& node) {
  if (node.op_type == "LSTM") return CellKind::kLstm;
  return node.op_type == "GRU" ? CellKind::kGru : CellKind::kRnn;
}

std::int64_t gates_of(CellKind kind) {
  if (kind == CellKind::kRnn) return 1;
  return kind == CellKind::kLstm ? 4 : 3;
}

/// Part `index` of `count` along the first axis, without that axis.
HostTensor part_of(const HostTensor& tensor, std::int64_t index) {
  const base::Shape shape(std::span(tensor.shape.begin() + 1, tensor.shape.end()));
  const auto size = static_cast<std::size_t>(shape.element_count());
  return HostTensor::copy_of<float>(
      tensor.values<float>().subspan(static_cast<std::size_t>(index) * size, size), shape);
}

/// Activations as ONNX spells them, in any case, with the default numbers of their operators.
Activation activation_of(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name == "hardsigmoid") return {"hard_sigmoid", 0.2, 0.5};
  return {name};
}

bool takes_alpha(const Activation& activation) {
  constexpr std::array kNames{"hard_sigmoid",    "affine",     "leakyrelu",
                              "thresholdedrelu", "scaledtanh", "elu"};
  return std::ranges::find(kNames, activation.name) != kNames.end();
}
bool takes_beta(const Activation& activation) {
  return activation.is("hard_sigmoid") || activation.is("affine") || activation.is("scaledtanh");
}

/// Gives the numbers of an attribute to those activations that have such a number, in order, as
/// ONNX Runtime does.
template <typename Takes>
void hand_out(const OnnxNode& node, const char* name, std::vector<Activation>& activations,
              Takes&& takes, double Activation::*member) {
  const std::vector<float> numbers = floats_of(node, name);
  const auto takers = static_cast<std::size_t>(std::ranges::count_if(activations, takes));
  if (numbers.size() > takers) {
    base::fail(ErrorCode::kUnsupported,
               "{} has {} numbers in '{}' for {} activations that take one; give as many",
               describe(node), numbers.size(), name, takers);
  }
  std::size_t next = 0;
  for (Activation& activation : activations) {
    if (next < numbers.size() && takes(activation)) {
      // The text keeps 0.2 from becoming 0.200000003.
      activation.*member = std::stod(fmt::format("{}", numbers[next++]));
    }
  }
}

std::vector<Activation> activations_of(const OnnxNode& node, CellKind kind,
                                       std::size_t directions) {
  std::vector<std::string> names = texts_of(node, "activations");
  const std::vector<std::string> usual =
      kind == CellKind::kLstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : kind == CellKind::kGru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                               : std::vector<std::string>{"Tanh"};
  if (names.empty()) {
    for (std::size_t i = 0; i < directions; ++i)
      names.insert(names.end(), usual.begin(), usual.end());
  }
  if (names.size() != usual.size() * directions) {
    base::fail(ErrorCode::kFormat, "{} has {} activations instead of {}", describe(node),
               names.size(), usual.size() * directions);
  }
  std::vector<Activation> activations;
  for (const std::string& name : names) activations.push_back(activation_of(name));
  hand_out(node, "activation_alpha", activations, takes_alpha, &Activation::alpha);
  hand_out(node, "activation_beta", activations, takes_beta, &Activation::beta);
  return activations;
}

void set_activations(SourceCell& cell, const Activation* activations) {
  if (cell.kind == CellKind::kRnn) {
    cell.candidate = activations[0];
    return;
  }
  cell.gate = activations[0];
  cell.candidate = activations[1];
  if (cell.kind == CellKind::kLstm) cell.state = activations[2];
}

void refuse_what_sluice_lacks(const OnnxNode& node) {
  // An absent clip means none, so a clip of 0 would be one.
  if (const float clip = float_of(node, "clip", 0); clip != 0) {
    base::fail(ErrorCode::kUnsupported, "{} has clip = {}; Sluice does not clip", describe(node),
               clip);
  }
  if (int_of(node, "input_forget", 0) != 0) {
    base::fail(ErrorCode::kUnsupported,
               "{} couples its input and forget gates (input_forget), which Sluice lacks",
               describe(node));
  }
}

/// Reads and checks the weights of a node.
class Weights {
 public:
  Weights(const OnnxNode& node, const ConstantInput& input, const std::filesystem::path& model)
      : node_(node), input_(input), model_(model) {}

  std::vector<std::int64_t> sizes(std::size_t index, const char* name, std::size_t rank) const {
    const std::optional<Constant> constant = input_(index);
    if (!constant) {
      base::fail(ErrorCode::kFormat, "{} lacks its input {}", describe(node_), name);
    }
    const std::vector<std::int64_t> sizes = sizes_of(*constant);
    const bool is_empty = std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1; });
    if (sizes.size() != rank || is_empty) {
      base::fail(ErrorCode::kFormat, "{}: {} has the shape [{}] instead of {} axes",
                 describe(node_), name, fmt::join(sizes, ", "), rank);
    }
    return sizes;
  }
  std::optional<HostTensor> read(std::size_t index, const char* name,
                                 const base::Shape& shape) const {
    const std::optional<Constant> constant = input_(index);
    if (!constant) return std::nullopt;
    const std::vector<std::int64_t> sizes = sizes_of(*constant);
    if (!std::ranges::equal(sizes, shape)) {
      base::fail(ErrorCode::kFormat, "{}: {} has the shape [{}] instead of {}", describe(node_),
                 name, fmt::join(sizes, ", "), shape.to_string());
    }
    return load_float32(*constant, model_);
  }

 private:
  const OnnxNode& node_;
  const ConstantInput& input_;
  const std::filesystem::path& model_;
};

}  // namespace

RecurrentLayer read_recurrent_node(const OnnxNode& node, const ConstantInput& input,
                                   const std::filesystem::path& model) {
  constexpr std::size_t kW = 1, kR = 2, kB = 3, kP = 7;
  refuse_what_sluice_lacks(node);
  const std::string direction = text_of(node, "direction", "forward");
  const bool is_both = direction == "bidirectional";
  if (!is_both && direction != "forward" && direction != "reverse") {
    base::fail(ErrorCode::kFormat, "{} has the direction '{}', which ONNX does not know",
               describe(node), direction);
  }
  SourceCell cell;
  cell.convention = Convention::kOnnx;
  cell.kind = kind_of(node);
  const Weights weights(node, input, model);
  const std::vector<std::int64_t> w_sizes = weights.sizes(kW, "W", 3);
  const std::int64_t directions = is_both ? 2 : 1, gates = gates_of(cell.kind);
  cell.input = w_sizes[2];
  cell.hidden = cell.output = weights.sizes(kR, "R", 3)[2];
  const std::int64_t said = int_of(node, "hidden_size", cell.hidden);
  if (said != cell.hidden) {
    base::fail(ErrorCode::kFormat, "{} has hidden_size = {}, but R is of {}", describe(node), said,
               cell.hidden);
  }
  const std::int64_t rows = base::checked_mul(gates, cell.hidden);
  const HostTensor w = *weights.read(kW, "W", {directions, rows, cell.input});
  const HostTensor r = *weights.read(kR, "R", {directions, rows, cell.hidden});
  const std::optional<HostTensor> b = weights.read(kB, "B", {directions, 2 * rows});
  std::optional<HostTensor> p;
  if (cell.kind == CellKind::kLstm) p = weights.read(kP, "P", {directions, 3 * cell.hidden});
  if (cell.kind == CellKind::kGru) cell.reset_after = int_of(node, "linear_before_reset", 0) != 0;

  const std::vector<Activation> activations =
      activations_of(node, cell.kind, static_cast<std::size_t>(directions));
  RecurrentLayer layer{.name = name_of(node)};
  for (std::int64_t index = 0; index < directions; ++index) {
    SourceCell one = cell;
    one.tensors["w"] = part_of(w, index);
    one.tensors["r"] = part_of(r, index);
    if (b) one.tensors["b"] = part_of(*b, index);
    if (p) one.tensors["p"] = part_of(*p, index);
    const std::size_t own = activations.size() / static_cast<std::size_t>(directions);
    set_activations(one, activations.data() + static_cast<std::size_t>(index) * own);
    const bool is_backward = direction == "reverse" || index == 1;
    (is_backward ? layer.backward : layer.forward) = std::move(one);
  }
  return layer;
}

std::string account_of(const OnnxNode& node, const RecurrentLayer& layer) {
  const SourceCell& cell = layer.forward ? *layer.forward : *layer.backward;
  std::string line =
      fmt::format("{}: {} from {} to {} features, direction '{}'", layer.name, node.op_type,
                  cell.input, cell.hidden, text_of(node, "direction", "forward"));
  if (cell.kind == CellKind::kLstm) line += ", gates i o f c";
  if (cell.kind == CellKind::kLstm && cell.find("p") != nullptr) line += ", with peepholes";
  if (cell.kind == CellKind::kGru) {
    line += fmt::format(", gates z r h, linear_before_reset = {}", cell.reset_after ? 1 : 0);
  }
  const Activation& gate = cell.kind == CellKind::kRnn ? cell.candidate : cell.gate;
  line += fmt::format(", activation '{}'", gate.name);
  if (gate.is("hard_sigmoid")) line += fmt::format(" (alpha {}, beta {})", gate.alpha, gate.beta);
  return line;
}

}  // namespace sluice::interchange::onnx
