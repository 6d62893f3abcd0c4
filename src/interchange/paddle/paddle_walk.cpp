#include "interchange/paddle/paddle_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "interchange/paddle/paddle_op.h"

namespace sluice::interchange::paddle {
namespace {

using io::formats::PaddleOp;
using io::formats::PaddleVariable;

/// Features that stand next to each other; a model whose parts double would take all memory.
constexpr std::size_t kMostParts = 16;
constexpr std::int32_t kInt32 = 2, kInt64 = 3, kFloat32 = 5;  // Paddle's element types

/// Tensors are [steps, features]: Paddle's sequences lie behind each other without padding.
bool is_last_axis(std::int64_t axis) { return axis == 1 || axis == -1; }

std::vector<std::int64_t> matrix_sizes(const PaddleOp& op, const Parameters& parameters,
                                       const std::string& name) {
  std::vector<std::int64_t> sizes = parameters.sizes(name);
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    refuse(op, fmt::format("has the parameter '{}', which is no matrix", name));
  }
  return sizes;
}

}  // namespace

struct Walk::Rule {
  std::string_view type;
  void (Walk::*apply)(const PaddleOp&);
};

const Walk::Rule* Walk::rule_of(const Op& op) {
  static constexpr std::array kRules = std::to_array<Rule>({
      {"feed", &Walk::feed},
      {"fetch", &Walk::fetch},
      {"lookup_table", &Walk::lookup_table},
      {"lookup_table_v2", &Walk::lookup_table},
      {"mul", &Walk::mul},
      {"fc", &Walk::fc},
      {"elementwise_add", &Walk::elementwise_add},
      {"sum", &Walk::sum},
      {"relu", &Walk::activation},
      {"sigmoid", &Walk::activation},
      {"tanh", &Walk::activation},
      {"softmax", &Walk::softmax},
      {"concat", &Walk::concat},
      {"dropout", &Walk::dropout},
      {"scale", &Walk::scale},
      {"assign", &Walk::assign},
      {"sequence_pool", &Walk::sequence_pool},
      {"gru", &Walk::recurrence},
      {"lstm", &Walk::recurrence},
      {"crf_decoding", &Walk::crf_decoding},
      {"arg_max", &Walk::arg_max},
      {"lod_reset", &Walk::lod_reset},
  });
  const auto found = std::ranges::find(kRules, op.type, &Rule::type);
  return found == kRules.end() ? nullptr : &*found;
}

Walk::Walk(const io::formats::PaddleBlock& block, const Parameters& parameters, Account& account)
    : parameters_(parameters), account_(account) {
  for (const PaddleVariable& variable : block.variables) variables_[variable.name] = &variable;
}

bool Walk::knows(const Op& op) { return rule_of(op) != nullptr; }

void Walk::visit(const Op& op) {
  const Rule* rule = rule_of(op);
  if (rule == nullptr) refuse(op, "is not read");
  (this->*rule->apply)(op);
}

void Walk::pass(const Op& op) {
  for (const auto& [parameter, names] : op.outputs) {
    for (const std::string& name : names) values_[name] = add_node(name, 0, Node::Unknown());
  }
}

const Value* Walk::find(std::string_view variable) const {
  const auto found = values_.find(variable);
  return found == values_.end() ? nullptr : &found->second;
}

const Value& Walk::value_of(const Op& op, const std::string& variable) const {
  const Value* value = find(variable);
  if (value == nullptr) {
    refuse(op, fmt::format("reads '{}', which is no output of an operation before it", variable));
  }
  return *value;
}

const Linear& Walk::linear_of(const Op& op, const std::string& variable) const {
  const auto* linear = std::get_if<Linear>(&value_of(op, variable));
  if (linear == nullptr) {
    refuse(op, fmt::format("reads '{}', which no fully connected layer puts out", variable));
  }
  if (!linear->activation.is("linear")) {
    refuse(op, fmt::format("reads '{}', which has the activation {}", variable,
                           linear->activation.name));
  }
  return *linear;
}

void Walk::set(const Op& op, std::string_view output, Value value) {
  values_.insert_or_assign(only_output(op, output), std::move(value));
}

Features Walk::add_node(std::string name, std::int64_t width, decltype(Node::what) what) {
  nodes_.push_back({std::move(name), width, std::move(what)});
  return {Part{nodes_.size() - 1}};
}

std::int64_t Walk::width_of(const Features& features) const {
  std::int64_t width = 0;
  for (const Part& part : features) {
    if (nodes_[part.node].width == 0) return 0;
    width += nodes_[part.node].width;
  }
  return width;
}

Features Walk::features_of(const Op& op, const std::string& variable) {
  const Value& value = value_of(op, variable);
  if (const auto* features = std::get_if<Features>(&value)) return *features;
  const auto* linear = std::get_if<Linear>(&value);
  if (linear == nullptr) refuse(op, fmt::format("reads '{}', which are ids or labels", variable));
  const std::int64_t width = parameters_.sizes(linear->terms[0].weight)[1];
  Features features = add_node(variable, width, *linear);
  values_.insert_or_assign(variable, features);
  return features;
}

Features Walk::join(const Op& op, std::vector<Features> list) {
  Features all;
  for (const Features& features : list) {
    if (all.size() + features.size() > kMostParts) {
      refuse(op, fmt::format("joins more than {} outputs", kMostParts));
    }
    all.insert(all.end(), features.begin(), features.end());
  }
  joined_.push_back(all);
  return all;
}

void Walk::feed(const Op& op) {
  const std::string& name = only_output(op, "Out");
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    refuse(op, "feeds a variable that the program does not describe");
  }
  const PaddleVariable* variable = found->second;
  if (variable->data_type == kInt64 || variable->data_type == kInt32) {
    return set(op, "Out", Ids{name});
  }
  if (variable->data_type != kFloat32 || variable->sizes.size() != 2 || variable->sizes[1] < 1) {
    refuse(op, "feeds neither ids nor sequences of numbers in float32");
  }
  set(op, "Out", add_node(name, variable->sizes[1], Node::Feed()));
}

void Walk::lookup_table(const Op& op) {
  const std::string& ids = only_input(op, "Ids");
  if (!std::holds_alternative<Ids>(value_of(op, ids))) {
    refuse(op, fmt::format("reads '{}', which is no feed of ids", ids));
  }
  const std::string& table = only_input(op, "W");
  const std::vector<std::int64_t> sizes = matrix_sizes(op, parameters_, table);
  const std::int64_t padding = int_of(op, "padding_idx", -1);
  if (padding < -1 || padding >= sizes[0]) {
    refuse(op, fmt::format("has padding_idx={}, but {} ids", padding, sizes[0]));
  }
  set(op, "Out", add_node(only_output(op, "Out"), sizes[1], Node::Embedding{table, padding}));
}

void Walk::mul(const Op& op) {
  if (int_of(op, "x_num_col_dims", 1) != 1 || int_of(op, "y_num_col_dims", 1) != 1) {
    refuse(op, "multiplies tensors of more than two axes");
  }
  const std::string& weight = only_input(op, "Y");
  Features input = features_of(op, only_input(op, "X"));
  const std::vector<std::int64_t> sizes = matrix_sizes(op, parameters_, weight);
  const std::int64_t width = width_of(input);
  if (width != 0 && width != sizes[0]) {
    refuse(op, fmt::format("reads {} numbers, but '{}' has {} rows", width, weight, sizes[0]));
  }
  set(op, "Out", Linear{layer_name(weight), {{std::move(input), weight}}});
}

void Walk::fc(const Op& op) {
  if (int_of(op, "in_num_col_dims", 1) != 1) refuse(op, "reads tensors of more than two axes");
  const std::string& weight = only_input(op, "W");
  matrix_sizes(op, parameters_, weight);
  Linear linear{layer_name(weight), {{features_of(op, only_input(op, "Input")), weight}}};
  if (has_input(op, "Bias")) linear.bias = only_input(op, "Bias");
  const std::string activation = text_of(op, "activation_type", "");
  if (!activation.empty() && activation != "relu") {
    refuse(op, fmt::format("has activation_type={}", activation));
  }
  if (!activation.empty()) linear.activation = {activation};
  set(op, "Out", std::move(linear));
}

void Walk::elementwise_add(const Op& op) {
  const std::string& other = only_input(op, "Y");
  if (!parameters_.has(other)) return sum(op);
  Linear linear = linear_of(op, only_input(op, "X"));
  if (!linear.bias.empty()) refuse(op, fmt::format("adds '{}' as a second bias", other));
  const std::vector<std::int64_t>& sizes = parameters_.sizes(other);
  if (!is_last_axis(int_of(op, "axis", -1)) || sizes.size() != 1) {
    refuse(op, fmt::format("adds '{}' along another axis than the last", other));
  }
  linear.bias = other;
  set(op, "Out", std::move(linear));
}

/// The sum of fully connected layers is one that reads all their inputs.
void Walk::sum(const Op& op) {
  std::vector<std::string> names;
  for (const auto& [parameter, list] : op.inputs) {
    names.insert(names.end(), list.begin(), list.end());
  }
  if (names.empty()) refuse(op, "has no inputs");
  Linear total;
  std::size_t parts = 0;
  for (const std::string& name : names) {
    const Linear& one = linear_of(op, name);
    if (total.terms.empty()) total.name = one.name;
    if (!one.bias.empty() && !total.bias.empty()) refuse(op, "adds several biases");
    if (total.bias.empty()) total.bias = one.bias;
    parts += input_of(one).size();
    if (parts > kMostParts) refuse(op, fmt::format("adds more than {} products", kMostParts));
    total.terms.insert(total.terms.end(), one.terms.begin(), one.terms.end());
  }
  joined_.push_back(input_of(total));
  set(op, "Out", std::move(total));
}

void Walk::activation(const Op& op) {
  Linear linear = linear_of(op, only_input(op, "X"));
  linear.activation = {op.type};
  set(op, "Out", std::move(linear));
}

void Walk::softmax(const Op& op) {
  if (!is_last_axis(int_of(op, "axis", -1))) refuse(op, "is not over the last axis");
  activation(op);
}

void Walk::concat(const Op& op) {
  refuse_input(op, "AxisTensor");
  if (!is_last_axis(int_of(op, "axis", 0))) refuse(op, "joins along another axis than the last");
  const auto found = op.inputs.find("X");
  if (found == op.inputs.end() || found->second.empty()) refuse(op, "has no inputs");
  std::vector<Features> list;
  for (const std::string& name : found->second) list.push_back(features_of(op, name));
  set(op, "Out", join(op, std::move(list)));
}

void Walk::add_scaled(const Op& op, float scale, float shift) {
  const std::string& name = only_input(op, "X");
  if (scale == 1 && shift == 0) return set(op, "Out", value_of(op, name));
  if (!std::isfinite(scale) || !std::isfinite(shift)) refuse(op, "has a scale that is no number");
  Features input = features_of(op, name);
  const std::int64_t width = width_of(input);
  const std::string& output = only_output(op, "Out");
  set(op, "Out", add_node(output, width, Node::Scaling{std::move(input), scale, shift}));
}

void Walk::dropout(const Op& op) {
  const std::string how = text_of(op, "dropout_implementation", "downgrade_in_infer");
  if (how == "upscale_in_train") return add_scaled(op, 1, 0);
  if (how != "downgrade_in_infer") refuse(op, fmt::format("has dropout_implementation={}", how));
  const float kept = 1 - float_of(op, "dropout_prob", 0.5F);
  account_.find(fmt::format("{}: dropout_implementation={}, so its input is times {}",
                            only_output(op, "Out"), how, kept));
  add_scaled(op, kept, 0);
}

void Walk::scale(const Op& op) {
  refuse_input(op, "ScaleTensor");
  const float scale = float_of(op, "scale", 1), bias = float_of(op, "bias", 0);
  add_scaled(op, scale, bool_of(op, "bias_after_scale", true) ? bias : bias * scale);
}

void Walk::assign(const Op& op) { set(op, "Out", value_of(op, only_input(op, "X"))); }

void Walk::sequence_pool(const Op& op) {
  static const std::map<std::string, std::string, std::less<>> kKinds{
      {"AVERAGE", "mean"}, {"MAX", "max"}, {"LAST", "last"}, {"FIRST", "first"}};
  const std::string type = text_of(op, "pooltype", "AVERAGE");
  const auto kind = kKinds.find(type);
  if (kind == kKinds.end()) refuse(op, fmt::format("has pooltype={}", type));
  Features features = features_of(op, only_input(op, "X"));
  for (Part& part : features) {
    if (!part.pooling.empty()) refuse(op, "pools what is pooled");
    part.pooling = kind->second;
  }
  set(op, "Out", std::move(features));
}

void Walk::recurrence(const Op& op) {
  for (const std::string_view state : {"H0", "C0"}) refuse_input(op, state);
  const std::int64_t gates = op.type == "gru" ? 3 : 4;
  const std::string& weight = only_input(op, "Weight");
  const std::vector<std::int64_t> sizes = matrix_sizes(op, parameters_, weight);
  if (sizes[1] / gates != sizes[0] || sizes[1] % gates != 0) {
    refuse(op, fmt::format("has the parameter '{}' of {} x {}, which is no recurrent weight",
                           weight, sizes[0], sizes[1]));
  }
  const Linear& input = linear_of(op, only_input(op, "Input"));
  const std::int64_t columns = parameters_.sizes(input.terms[0].weight)[1];
  if (columns != sizes[1]) {
    refuse(op, fmt::format("reads {} numbers, but needs {}", columns, sizes[1]));
  }
  Node::Recurrence what{&op, input, bool_of(op, "is_reverse", false)};
  set(op, "Hidden", add_node(only_output(op, "Hidden"), sizes[0], std::move(what)));
}

void Walk::crf_decoding(const Op& op) {
  refuse_input(op, "Label");
  refuse_input(op, "Length");
  Features scores = features_of(op, only_input(op, "Emission"));
  set(op, "ViterbiPath", Answers{std::move(scores), only_input(op, "Transition")});
}

void Walk::arg_max(const Op& op) {
  if (!is_last_axis(int_of(op, "axis", -1))) refuse(op, "is not over the last axis");
  Features scores = features_of(op, only_input(op, "X"));
  account_.leave_out(fmt::format("{}: Sluice finds the largest score itself", describe(op)));
  set(op, "Out", Answers{std::move(scores)});
}

/// Labels lie as what they are found of.
void Walk::lod_reset(const Op& op) {
  const Value& value = value_of(op, only_input(op, "X"));
  if (!std::holds_alternative<Answers>(value)) refuse(op, "changes where sequences begin");
  set(op, "Out", value);
}

}  // namespace sluice::interchange::paddle
