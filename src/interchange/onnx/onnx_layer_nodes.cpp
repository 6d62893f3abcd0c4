#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_recurrent_node.h"
#include "interchange/onnx/onnx_walk.h"

// Nodes that are layers, or parts of one.
namespace sluice::interchange::onnx {

using io::HostTensor;
using io::formats::OnnxNode;
using Kind = Axis::Kind;

namespace {

HostTensor tensor_of(const std::vector<float>& values) {
  return HostTensor::copy_of<float>(values, {static_cast<std::int64_t>(values.size())});
}

/// Null unless the step is a linear layer that may still get what `node` adds.
std::shared_ptr<Step> open_linear(const Data& data) {
  const Step& step = *data.pieces[0].step;
  if (data.pieces.size() != 1 || data.pieces[0].read != Read::kAll || step.layer == nullptr ||
      step.activation || !std::holds_alternative<LinearLayer>(*step.layer)) {
    return nullptr;
  }
  return std::make_shared<Step>(step);
}

[[noreturn]] void refuse_alone(const OnnxNode& node) {
  base::fail(ErrorCode::kUnsupported,
             "{} does not follow a linear layer; Sluice has activations there only",
             describe(node));
}

}  // namespace

void Walk::note_input(const std::string& name, std::string_view what) {
  if (noted_.insert(name).second) account_.find(fmt::format("the input '{}' holds {}", name, what));
}

void Walk::check_lengths(const OnnxNode& node, const Data& data, std::size_t time_axis) {
  constexpr std::size_t kLengths = 4;
  if (node.inputs.size() <= kLengths || node.inputs[kLengths].empty()) return;
  const std::optional<std::int64_t> steps = size_of(data, data.axes[time_axis]);
  const Data* lengths = data_input(node, kLengths);
  if (lengths != nullptr || (takes_alone_ && input(node, kLengths) == nullptr)) {
    has_lengths_ = true;
    note_input(lengths != nullptr ? lengths->pieces[0].step->name : node.inputs[kLengths],
               "the lengths of rows");
    return;
  }
  const std::optional<Numbers> numbers = numbers_input(node, kLengths);
  const bool is_whole = numbers && std::ranges::all_of(numbers->values, [&](const Number& number) {
                          if (number.axis) return resolve(*number.axis).kind == Kind::kTime;
                          return steps && number.value == steps;
                        });
  if (!is_whole) {
    base::fail(ErrorCode::kUnsupported,
               "{} ends its rows at constant lengths (sequence_lens); Sluice takes lengths with "
               "each batch",
               describe(node));
  }
}

/// Whether the caller gives an initial state. Refuses one that is computed or constant.
bool Walk::check_state(const OnnxNode& node, std::size_t index, const char* name) {
  if (index >= node.inputs.size() || node.inputs[index].empty()) return false;
  const Value* value = input(node, index);
  if (value != nullptr && std::holds_alternative<Zeros>(*value)) return false;
  if (value != nullptr && std::holds_alternative<Constant>(*value)) {
    if (is_zero(node, std::get<Constant>(*value))) return false;
    base::fail(ErrorCode::kUnsupported,
               "{} begins with constants that are not zero ({}); Sluice begins with zeros or a "
               "state that it carries",
               describe(node), name);
  }
  const Data* data = value == nullptr ? nullptr : std::get_if<Data>(value);
  const bool is_input =
      data != nullptr && data->pieces.size() == 1 && data->pieces[0].step->layer == nullptr;
  if (!is_input && (value != nullptr || !takes_alone_)) {
    base::fail(ErrorCode::kUnsupported,
               "{} takes {} from other nodes ('{}'); Sluice begins with zeros or a state that it "
               "carries",
               describe(node), name, node.inputs[index]);
  }
  note_input(is_input ? data->pieces[0].step->name : node.inputs[index],
             "the state that Sluice carries");
  return true;
}

void Walk::recurrent(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const std::int64_t layout = int_of(node, "layout", 0);
  if (data.axes.size() != 3 || (layout != 0 && layout != 1)) {
    base::fail(ErrorCode::kUnsupported, "{} reads a tensor with the axes {} (layout {})",
               describe(node), describe_axes(data.axes), layout);
  }
  const std::size_t time = layout == 0 ? 0 : 1, batch = 1 - time;
  const bool has_h = check_state(node, 5, "initial_h");
  const bool has_c = check_state(node, 6, "initial_c");
  // A model that is called for one step and carries its state is the same as one for all steps.
  const bool is_one_step = data.axes[time].kind == Kind::kOne && (has_h || has_c);
  if (is_one_step && noted_.insert(" step").second) {
    account_.find(fmt::format("{} computes one step a call; Sluice computes all", describe(node)));
  }
  if (!is_one_step) require(node, data, time, Kind::kTime);
  require(node, data, batch, Kind::kBatch);
  require(node, data, 2, Kind::kFeature);
  check_lengths(node, data, time);

  const StepPointer before = settle(data, describe(node));
  std::set<std::size_t> charged;  // the shape of a weight is looked at first
  const ConstantInput weights = [&](std::size_t index) -> std::optional<Constant> {
    if (index >= node.inputs.size() || node.inputs[index].empty()) return std::nullopt;
    std::optional<Constant> constant = constant_input(node, index);
    if (!constant && index != 3) {
      base::fail(ErrorCode::kUnsupported,
                 "{} computes its weights '{}' from other nodes or takes them as an input; export "
                 "the model with constant folding",
                 describe(node), node.inputs[index]);
    }
    const Value* value = input(node, index);
    const bool has_zeros = value != nullptr && std::holds_alternative<Zeros>(*value);
    if (!constant && !has_zeros) {
      base::fail(ErrorCode::kUnsupported, "{} computes its biases '{}' from other nodes",
                 describe(node), node.inputs[index]);
    }
    if (constant && charged.insert(index).second) budget_.charge(*constant, describe(node));
    return constant;
  };
  RecurrentLayer layer = read_recurrent_node(node, weights, path_);
  if (before->width && *before->width != layer.input()) {
    base::fail(ErrorCode::kFormat, "{} reads {} features, but is given {}", describe(node),
               layer.input(), *before->width);
  }
  account_.find(account_of(node, layer));
  std::vector<Piece> pieces;
  const std::int64_t width = (layer.forward ? layer.forward : layer.backward)->output;
  const bool has_forward = layer.forward.has_value(), has_backward = layer.backward.has_value();
  const std::int64_t output = layer.output();
  const StepPointer step = append(before, std::move(layer), output);
  last_recurrent_ = step;
  if (has_forward) pieces.push_back({step, Part::kForward, Read::kAll, width});
  if (has_backward) pieces.push_back({step, Part::kBackward, Read::kAll, width});

  Axis time_axis = data.axes[time], batch_axis = data.axes[batch];
  const Axis directions{Kind::kDirection}, features{Kind::kFeature};
  Data y{.pieces = pieces, .axes = {time_axis, directions, batch_axis, features}};
  if (layout == 1) y.axes = {batch_axis, time_axis, directions, features};
  Data last{.pieces = pieces, .axes = {directions, batch_axis, features}};
  if (layout == 1) last.axes = {batch_axis, directions, features};
  for (Piece& piece : last.pieces) piece.read = Read::kFinal;
  put(node, std::move(y), 0);
  put(node, last, 1);
  last.is_cell_state = true;
  put(node, std::move(last), 2);
}

void Walk::embed(const OnnxNode& node, const Data& ids) {
  const std::optional<Constant> table = constant_input(node, 0);
  const StepPointer before = settle(ids, describe(node));
  const bool is_table = sizes_of(*table).size() == 2 && int_of(node, "axis", 0) == 0;
  if (!is_table || before->layer != nullptr || ids.axes.empty() || ids.axes.size() > 2) {
    base::fail(ErrorCode::kUnsupported,
               "{} is no embedding of a graph input's ids [time, batch] or [batch, time]",
               describe(node));
  }
  std::vector<Axis> axes = ids.axes;
  axes.push_back({Kind::kFeature});
  HostTensor rows = load(node, *table);
  const std::int64_t width = rows.shape[1];
  account_.find(fmt::format("{}: an embedding of {} ids, {} wide", onnx::name_of(node),
                            rows.shape[0], width));
  put(node, output_of(append(before, EmbeddingLayer{onnx::name_of(node), std::move(rows)}, width),
                      std::move(axes)));
}

void Walk::matmul(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const std::optional<Constant> weight = constant_input(node, 1);
  if (!weight || sizes_of(*weight).size() != 2) {
    base::fail(ErrorCode::kUnsupported, "{} multiplies by something else than a constant matrix",
               describe(node));
  }
  require_features_last(node, data);
  const StepPointer before = settle(data, describe(node));
  LinearLayer layer{onnx::name_of(node), transposed(load(node, *weight))};
  const std::int64_t width = layer.weight.shape[0];
  if (before->width && *before->width != layer.weight.shape[1]) {
    base::fail(ErrorCode::kFormat, "{} reads {} features, but is given {}", describe(node),
               layer.weight.shape[1], *before->width);
  }
  std::vector<Axis> axes = data.axes;
  axes.back() = {Kind::kFeature};
  put(node, output_of(append(before, std::move(layer), width), std::move(axes), data.rows));
}

void Walk::gemm(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const std::optional<Constant> weight = constant_input(node, 1);
  const bool is_plain = float_of(node, "alpha", 1) == 1 && float_of(node, "beta", 1) == 1 &&
                        int_of(node, "transA", 0) == 0;
  if (!is_plain || !weight || sizes_of(*weight).size() != 2 || data.axes.size() != 2) {
    base::fail(ErrorCode::kUnsupported,
               "{} is no plain linear layer (alpha, beta 1; transA 0; a constant matrix)",
               describe(node));
  }
  require_features_last(node, data);
  const StepPointer before = settle(data, describe(node));
  LinearLayer layer{onnx::name_of(node), load(node, *weight)};
  if (int_of(node, "transB", 0) == 0) layer.weight = transposed(layer.weight);
  const std::int64_t width = layer.weight.shape[0];
  if (before->width && *before->width != layer.weight.shape[1]) {
    base::fail(ErrorCode::kFormat, "{} reads {} features, but is given {}", describe(node),
               layer.weight.shape[1], *before->width);
  }
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const std::optional<Constant> bias = constant_input(node, 2);
    if (!bias) {
      base::fail(ErrorCode::kUnsupported, "{} adds something else than a constant", describe(node));
    }
    layer.bias = tensor_of(vector_of(node, *bias, width));
  }
  std::vector<Axis> axes = data.axes;
  axes.back() = {Kind::kFeature};
  put(node, output_of(append(before, std::move(layer), width), std::move(axes), data.rows));
}

/// A number for each feature; one number stands for all.
std::vector<float> Walk::vector_of(const OnnxNode& node, const Constant& constant,
                                   std::int64_t width) {
  const std::vector<std::int64_t> sizes = sizes_of(constant);
  std::int64_t before = 1;
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) before *= sizes[axis] == 1 ? 1 : 0;
  const std::int64_t last = sizes.empty() ? 1 : sizes.back();
  if (before != 1 || (last != 1 && last != width)) {
    base::fail(ErrorCode::kUnsupported,
               "{} takes a constant of the shape [{}], which is no number for each of {} features",
               describe(node), fmt::join(sizes, ", "), width);
  }
  const HostTensor tensor = load(node, constant);
  const auto values = tensor.values<float>();
  if (last == width) return {values.begin(), values.end()};
  return std::vector<float>(static_cast<std::size_t>(width), values[0]);
}

void Walk::elementwise(const OnnxNode& node) {
  const bool is_swapped = data_input(node, 0) == nullptr;
  const Data data = require_data(node, is_swapped ? 1 : 0);
  const std::optional<Constant> constant = constant_input(node, is_swapped ? 0 : 1);
  const std::string& op = node.op_type;
  const std::optional<std::int64_t> width = width_of(data);
  if (!constant || !width || (is_swapped && (op == "Sub" || op == "Div")) ||
      sizes_of(*constant).size() > data.axes.size()) {
    base::fail(ErrorCode::kUnsupported,
               "{} joins two branches, or a constant in a way that is no layer of Sluice",
               describe(node));
  }
  require_features_last(node, data);
  std::vector<float> values = vector_of(node, *constant, *width);
  const bool is_sum = op == "Add" || op == "Sub";
  for (float& value : values) {
    if (op == "Sub") value = -value;
    if (op == "Div") value = 1 / value;
  }
  if (is_sum) {
    if (std::shared_ptr<Step> linear = open_linear(data);
        linear && !linear->bias && !std::get<LinearLayer>(*linear->layer).bias) {
      linear->bias = tensor_of(values);
      return put(node, output_of(linear, data.axes, data.rows));
    }
  }
  std::vector<float> scale(values.size(), 1), shift(values.size(), 0);
  StepPointer before = settle(data, describe(node));
  std::string name = onnx::name_of(node);
  // A product and a sum after each other are one layer.
  const auto* affine = before->layer ? std::get_if<AffineLayer>(before->layer.get()) : nullptr;
  if (affine != nullptr) {
    std::ranges::copy(affine->scale.values<float>(), scale.begin());
    std::ranges::copy(affine->shift.values<float>(), shift.begin());
    name = affine->name;
    before = before->before;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    scale[i] *= is_sum ? 1 : values[i];
    shift[i] = is_sum ? shift[i] + values[i] : shift[i] * values[i];
  }
  AffineLayer layer{std::move(name), tensor_of(scale), tensor_of(shift)};
  put(node, output_of(append(before, std::move(layer), *width), data.axes, data.rows));
}

void Walk::normalize(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const bool is_training = int_of(node, "training_mode", 0) != 0 ||
                           std::ranges::count_if(node.outputs, [](const std::string& name) {
                             return !name.empty();
                           }) > 1;
  const std::optional<std::int64_t> width = width_of(data);
  if (is_training || data.axes.size() < 2 || !width) {
    base::fail(ErrorCode::kUnsupported,
               "{} is in training mode, or normalises something else than features",
               describe(node));
  }
  require(node, data, 1, Kind::kFeature);
  std::vector<std::vector<float>> numbers;
  for (std::size_t index = 1; index <= 4; ++index) {
    const std::optional<Constant> constant = constant_input(node, index);
    if (!constant) {
      base::fail(ErrorCode::kUnsupported, "{} has a scale or statistics that are no constants",
                 describe(node));
    }
    numbers.push_back(vector_of(node, *constant, *width));
  }
  const double epsilon = float_of(node, "epsilon", 1e-5F);
  std::vector<float> scale, shift;
  for (std::size_t i = 0; i < numbers[0].size(); ++i) {
    const double factor = numbers[0][i] / std::sqrt(numbers[3][i] + epsilon);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(numbers[1][i] - numbers[2][i] * factor));
  }
  const StepPointer before = settle(data, describe(node));
  AffineLayer layer{onnx::name_of(node), tensor_of(scale), tensor_of(shift)};
  put(node, output_of(append(before, std::move(layer), *width), data.axes, data.rows));
}

void Walk::activation(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const std::shared_ptr<Step> linear = open_linear(data);
  if (linear == nullptr) refuse_alone(node);
  const std::string& op = node.op_type;
  if (op == "Softmax" || op == "LogSoftmax") {
    const auto rank = static_cast<std::int64_t>(data.axes.size());
    const std::int64_t axis = int_of(node, "axis", opset_ < 13 ? 1 : -1);
    const auto index = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    if (index >= data.axes.size() || resolve(data.axes[index]).kind != Kind::kFeature) {
      base::fail(ErrorCode::kUnsupported, "{} works along another axis than the features",
                 describe(node));
    }
    linear->activation = {op == "Softmax" ? "softmax" : "log_softmax"};
  } else if (op == "HardSigmoid") {
    linear->activation = {"hard_sigmoid", float_of(node, "alpha", 0.2F),
                          float_of(node, "beta", 0.5F)};
  } else {
    linear->activation = {op == "Sigmoid" ? "sigmoid" : op == "Tanh" ? "tanh" : "relu"};
  }
  put(node, output_of(linear, data.axes, data.rows));
}

}  // namespace sluice::interchange::onnx
