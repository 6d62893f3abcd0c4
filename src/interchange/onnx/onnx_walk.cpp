#include "interchange/onnx/onnx_walk.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_fold.h"

namespace sluice::interchange::onnx {

using io::formats::OnnxNode;
using io::formats::OnnxValue;
using Kind = Axis::Kind;

namespace {

// Far more than any model has; chains are taken apart by recursion.
constexpr std::size_t kMostLayers = 1000, kMostAxes = 8;
// A file may claim any size for an input.
constexpr std::int64_t kMostSize = 1 << 24;

std::string_view meaning_of(Kind kind) {
  switch (kind) {
    case Kind::kInput:
      return "unknown";
    case Kind::kTime:
      return "time";
    case Kind::kBatch:
      return "batch";
    case Kind::kDirection:
      return "directions";
    case Kind::kFeature:
      return "features";
    case Kind::kRows:
      return "time x batch";
    case Kind::kOne:
      break;
  }
  return "1";
}

}  // namespace

/// The handlers by the names of the operators.
struct Operators {
  using Handler = void (Walk::*)(const OnnxNode&);
  static const std::map<std::string, Handler, std::less<>>& handlers() {
    static const std::map<std::string, Handler, std::less<>> table{
        {"LSTM", &Walk::recurrent},
        {"GRU", &Walk::recurrent},
        {"RNN", &Walk::recurrent},
        {"MatMul", &Walk::matmul},
        {"Gemm", &Walk::gemm},
        {"Add", &Walk::elementwise},
        {"Sub", &Walk::elementwise},
        {"Mul", &Walk::elementwise},
        {"Div", &Walk::elementwise},
        {"BatchNormalization", &Walk::normalize},
        {"Softmax", &Walk::activation},
        {"LogSoftmax", &Walk::activation},
        {"Sigmoid", &Walk::activation},
        {"HardSigmoid", &Walk::activation},
        {"Tanh", &Walk::activation},
        {"Relu", &Walk::activation},
        {"Gather", &Walk::gather},
        {"Slice", &Walk::slice},
        {"Split", &Walk::split},
        {"Concat", &Walk::concat},
        {"ReduceMean", &Walk::reduce},
        {"ReduceMax", &Walk::reduce},
        {"Transpose", &Walk::transpose},
        {"Squeeze", &Walk::squeeze},
        {"Unsqueeze", &Walk::unsqueeze},
        {"Reshape", &Walk::reshape},
        {"Flatten", &Walk::flatten},
        {"Identity", &Walk::same},
        {"Cast", &Walk::same},
        {"Dropout", &Walk::same},
        {"Shape", &Walk::shape},
        {"Constant", nullptr},
        {"ConstantOfShape", nullptr},
        {"Expand", nullptr},
        {"Tile", nullptr},
        {"ReduceProd", nullptr},
    };
    return table;
  }
  static Handler pooling() { return &Walk::sluice_pooling; }
};

bool Walk::knows(const OnnxNode& node) {
  if (node.domain == "sluice") return true;
  return node.domain.empty() && Operators::handlers().contains(node.op_type);
}

void Walk::add_input(const OnnxValue& input) {
  Data data;
  auto step = std::make_shared<Step>();
  step->name = input.name;
  if (!input.shape) return;  // nothing is known about it
  for (const io::formats::OnnxAxis& axis : *input.shape) {
    data.axes.push_back({Kind::kInput, meanings_.size()});
    meanings_.emplace_back();
    const bool is_plausible = axis.size && *axis.size <= kMostSize;
    input_sizes_.push_back(is_plausible ? axis.size : std::nullopt);
  }
  const bool is_float = input.type == 1 || input.type == 10 || input.type == 11;
  if (is_float && !input.shape->empty()) step->width = input_sizes_.back();
  data.pieces.push_back({step, Part::kWhole, Read::kAll, step->width});
  set(input.name, std::move(data));
}

void Walk::add_features(const std::string& name, bool is_batch_first) {
  auto step = std::make_shared<Step>();
  step->name = name;
  Data data{.pieces = {{step}}, .axes = {{Kind::kTime}, {Kind::kBatch}, {Kind::kFeature}}};
  if (is_batch_first) std::swap(data.axes[0], data.axes[1]);
  set(name, std::move(data));
  takes_alone_ = true;
}

void Walk::visit(const OnnxNode& node) {
  if (node.op_type == "Constant" && node.domain.empty()) {
    const std::optional<Constant> constant = constant_of(node);
    if (constant) return put(node, *constant);
  }
  if (node.domain == "sluice") return sluice_pooling(node);
  if (knows(node)) {
    if (try_constants(node) || try_numbers(node) || try_zeros(node)) return;
    const Operators::Handler handler = Operators::handlers().find(node.op_type)->second;
    if (handler != nullptr) return (this->*handler)(node);
  }
  base::fail(ErrorCode::kUnsupported, "{} computes something that Sluice does not read",
             describe(node));
}

bool Walk::try_constants(const OnnxNode& node) {
  std::vector<std::optional<Constant>> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(constant_input(node, i));
    if (!inputs.back() && !node.inputs[i].empty()) return false;
  }
  std::optional<Constant> result = fold(node, inputs, path_, budget_);
  if (!result) return false;
  put(node, std::move(*result));
  return true;
}

const Value* Walk::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

const Value* Walk::input(const OnnxNode& node, std::size_t index) const {
  if (index >= node.inputs.size() || node.inputs[index].empty()) return nullptr;
  return find(node.inputs[index]);
}

const Data* Walk::data_input(const OnnxNode& node, std::size_t index) const {
  const Value* value = input(node, index);
  return value == nullptr ? nullptr : std::get_if<Data>(value);
}

const Data& Walk::require_data(const OnnxNode& node, std::size_t index) const {
  const Data* data = data_input(node, index);
  if (data == nullptr) {
    base::fail(ErrorCode::kUnsupported,
               "{} reads '{}', which is no tensor of the chain from the graph's input",
               describe(node), index < node.inputs.size() ? node.inputs[index] : "nothing");
  }
  return *data;
}

std::optional<Constant> Walk::constant_input(const OnnxNode& node, std::size_t index) const {
  const Value* value = input(node, index);
  const auto* constant = value == nullptr ? nullptr : std::get_if<Constant>(value);
  if (constant == nullptr) return std::nullopt;
  return *constant;
}

std::optional<Numbers> Walk::numbers_input(const OnnxNode& node, std::size_t index) const {
  const Value* value = input(node, index);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<Numbers>(value)) return *numbers;
  if (const auto* constant = std::get_if<Constant>(value)) return integers_of(*constant, path_);
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Walk::integers_input(const OnnxNode& node,
                                                              std::size_t index) const {
  const std::optional<Numbers> numbers = numbers_input(node, index);
  if (!numbers) return std::nullopt;
  std::vector<std::int64_t> result;
  for (const Number& number : numbers->values) {
    if (!number.value) return std::nullopt;
    result.push_back(*number.value);
  }
  return result;
}

std::optional<std::int64_t> Walk::integer_input(const OnnxNode& node, std::size_t index) const {
  const auto integers = integers_input(node, index);
  if (!integers || integers->size() != 1) return std::nullopt;
  return integers->front();
}

io::HostTensor Walk::load(const OnnxNode& node, const Constant& constant) {
  budget_.charge(constant, describe(node));
  return load_float32(constant, path_);
}

bool Walk::is_zero(const OnnxNode& node, const Constant& constant) {
  budget_.charge(constant, describe(node));
  return is_all_zero(constant, path_);
}

void Walk::put(const OnnxNode& node, Value value, std::size_t output) {
  const auto* data = std::get_if<Data>(&value);
  if (data != nullptr && data->axes.size() > kMostAxes) {
    base::fail(ErrorCode::kUnsupported, "{} makes a tensor of more than {} axes", describe(node),
               kMostAxes);
  }
  if (output < node.outputs.size() && !node.outputs[output].empty()) {
    set(node.outputs[output], std::move(value));
  }
}

Axis Walk::resolve(Axis axis) const {
  if (axis.kind != Kind::kInput || !meanings_[axis.input]) return axis;
  return {*meanings_[axis.input]};
}

std::string Walk::describe_axes(const std::vector<Axis>& axes) const {
  std::vector<std::string_view> names;
  for (const Axis& axis : axes) names.push_back(meaning_of(resolve(axis).kind));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

std::optional<std::int64_t> Walk::width_of(const Data& data) const {
  const bool is_along_directions =
      std::ranges::find(data.axes, Kind::kDirection, &Axis::kind) != data.axes.end();
  std::int64_t width = 0;
  for (const Piece& piece : data.pieces) {
    if (!piece.width) return std::nullopt;
    if (is_along_directions) return piece.width;
    width += *piece.width;
  }
  return width;
}

std::optional<std::int64_t> Walk::size_of(const Data& data, const Axis& axis) const {
  if (axis.kind == Kind::kInput) return input_sizes_[axis.input];
  if (axis.kind == Kind::kOne) return 1;
  if (axis.kind == Kind::kDirection) return static_cast<std::int64_t>(data.pieces.size());
  return axis.kind == Kind::kFeature ? width_of(data) : std::nullopt;
}

bool Walk::is_trivial(const Data& data, const Axis& axis) const {
  return axis.kind == Kind::kOne || (axis.kind == Kind::kDirection && data.pieces.size() == 1);
}

void Walk::require(const OnnxNode& node, const Data& data, std::size_t index, Kind kind) {
  const Axis axis = data.axes[index], found = resolve(axis);
  if (found.kind == kind) return;
  if (found.kind == Kind::kInput) {
    meanings_[axis.input] = kind;
    return;
  }
  if (kind == Kind::kBatch && is_trivial(data, found)) return;
  base::fail(ErrorCode::kUnsupported,
             "{} reads a tensor with the axes {}, but takes axis {} as {}; that is another model "
             "than a chain of layers",
             describe(node), describe_axes(data.axes), index, meaning_of(kind));
}

void Walk::require_features_last(const OnnxNode& node, const Data& data) {
  if (data.axes.empty()) {
    base::fail(ErrorCode::kUnsupported, "{} reads a single number", describe(node));
  }
  require(node, data, data.axes.size() - 1, Kind::kFeature);
}

StepPointer Walk::append(StepPointer before, SourceLayer layer, std::optional<std::int64_t> width) {
  auto step = std::make_shared<Step>();
  step->name = std::string(interchange::name_of(layer));
  step->depth = before->depth + 1;
  if (step->depth > kMostLayers) {
    base::fail(ErrorCode::kUnsupported, "'{}' has more than {} layers", path_.native(),
               kMostLayers);
  }
  step->before = std::move(before);
  step->layer = std::make_shared<SourceLayer>(std::move(layer));
  step->width = width;
  return step;
}

Data Walk::output_of(StepPointer step, std::vector<Axis> axes, std::vector<Axis> rows) const {
  const std::optional<std::int64_t> width = step->width;
  return {.pieces = {{std::move(step), Part::kWhole, Read::kAll, width}},
          .axes = std::move(axes),
          .rows = std::move(rows)};
}

StepPointer Walk::settle(const Data& data, const std::string& reader) {
  const auto refuse = [&](std::string_view why) {
    base::fail(ErrorCode::kUnsupported, "{} {}, so the graph is no chain of layers", reader, why);
  };
  if (data.is_cell_state) refuse("reads the cell state of an LSTM");
  if (data.is_cut) refuse("reads some of a graph input's numbers only");
  const Read read = data.pieces[0].read;
  for (const Piece& piece : data.pieces) {
    if (piece.read != read) refuse("joins different time steps");
    if (piece.read == Read::kFirst) {
      refuse("reads the time step that a direction processes first, instead of its last one");
    }
  }
  const StepPointer step = join_pieces(data, reader);
  return read == Read::kFinal ? read_last(step, reader) : step;
}

StepPointer Walk::join_pieces(const Data& data, const std::string& reader) const {
  const Piece& first = data.pieces[0];
  if (data.pieces.size() == 1 && first.part == Part::kWhole) return first.step;
  const auto recurrent_of = [](const Piece& piece) -> const RecurrentLayer& {
    return std::get<RecurrentLayer>(*piece.step->layer);
  };
  const Piece& last = data.pieces.back();
  const bool is_one = data.pieces.size() == 1;
  const bool is_pair = data.pieces.size() == 2 && first.part == Part::kForward &&
                       last.part == Part::kBackward && first.step->before == last.step->before;
  if (!is_one && !is_pair) {
    base::fail(ErrorCode::kUnsupported,
               "{} joins outputs of recurrent layers in another way than a layer with two "
               "directions does (forward first)",
               reader);
  }
  RecurrentLayer layer{.name = first.step->name};
  if (first.step == last.step) {
    const RecurrentLayer& whole = recurrent_of(first);
    const bool has_all = is_pair || !whole.forward || !whole.backward;
    if (has_all) return first.step;
    // The graph reads one direction of two.
    (first.part == Part::kForward ? layer.forward : layer.backward) =
        first.part == Part::kForward ? whole.forward : whole.backward;
  } else {
    layer.name += "+" + last.step->name;
    layer.forward = recurrent_of(first).forward;
    layer.backward = recurrent_of(last).backward;
  }
  auto step = std::make_shared<Step>();
  step->name = layer.name;
  step->before = first.step->before;
  step->depth = first.step->depth;
  step->width = layer.output();
  step->layer = std::make_shared<SourceLayer>(std::move(layer));
  return step;
}

StepPointer Walk::read_last(const StepPointer& step, const std::string& reader) {
  // Linear layers compute every step alone, so reading one step may come before them.
  std::vector<StepPointer> after;
  StepPointer at = step;
  const RecurrentLayer* recurrent = nullptr;
  while (at->layer != nullptr && recurrent == nullptr) {
    recurrent = std::get_if<RecurrentLayer>(at->layer.get());
    if (recurrent != nullptr) break;
    const bool is_plain = std::holds_alternative<LinearLayer>(*at->layer) ||
                          std::holds_alternative<AffineLayer>(*at->layer);
    if (!is_plain) break;
    after.push_back(at);
    at = at->before;
  }
  if (recurrent == nullptr || (!after.empty() && recurrent->backward)) {
    base::fail(ErrorCode::kUnsupported,
               "{} reads the last time step of '{}', which is no output of a recurrent layer with "
               "one direction",
               reader, step->name);
  }
  StepPointer result = append(at, PoolingLayer{at->name + ".last", "last"}, at->width);
  for (auto one = after.rbegin(); one != after.rend(); ++one) {
    auto copy = std::make_shared<Step>(**one);
    copy->before = result;
    copy->depth = result->depth + 1;
    result = copy;
  }
  return result;
}

}  // namespace sluice::interchange::onnx
