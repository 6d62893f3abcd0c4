#include "interchange/paddle/paddle_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "interchange/paddle/paddle_op.h"

namespace sluice::interchange::paddle {
namespace {

using base::Shape;
using io::HostTensor;
using io::formats::PaddleOp;

Activation activation_of(const PaddleOp& op, std::string_view name, std::string_view otherwise) {
  const std::string text = text_of(op, name, otherwise);
  return {text == "identity" ? "linear" : text};
}

void set_gru(const PaddleOp& op, SourceCell& cell, Account& account) {
  const bool origin_mode = bool_of(op, "origin_mode", false);
  cell.kind = CellKind::kGru;
  cell.reset_after = false;
  cell.keeps_by_complement = !origin_mode;
  cell.candidate = activation_of(op, "activation", "tanh");
  account.find(fmt::format(
      "{}: GRU with gates u r c, activation {}, gate_activation {}, is_reverse={}, "
      "origin_mode={}, so h' = {} (attributes); it resets before the product",
      describe(op), cell.candidate.name, cell.gate.name, int{bool_of(op, "is_reverse", false)},
      int{origin_mode}, origin_mode ? "u h + (1 - u) c" : "(1 - u) h + u c"));
}

void set_lstm(const PaddleOp& op, SourceCell& cell, Account& account) {
  const bool peeps = bool_of(op, "use_peepholes", true);
  const std::int64_t width = (peeps ? 7 : 4) * cell.hidden;
  if (cell.get("bias").shape != Shape{1, width}) {
    refuse(op, fmt::format("has use_peepholes={}, but a bias of the shape {}", int{peeps},
                           cell.get("bias").shape.to_string()));
  }
  cell.candidate = activation_of(op, "candidate_activation", "tanh");
  cell.state = activation_of(op, "cell_activation", "tanh");
  account.find(fmt::format(
      "{}: LSTM with gates c i f o, candidate_activation {}, cell_activation {}, gate_activation "
      "{}, is_reverse={}, use_peepholes={}{} (attributes)",
      describe(op), cell.candidate.name, cell.state.name, cell.gate.name,
      int{bool_of(op, "is_reverse", false)}, int{peeps},
      peeps ? ", those of i f o behind the bias" : ""));
}

}  // namespace

Features ordered_input(const Nodes& nodes, const Linear& linear) {
  Features features = input_of(linear);
  if (pair_of(nodes, features) == Pair::kBackwardFirst) std::swap(features[0], features[1]);
  return features;
}

HostTensor weight_of(const Nodes& nodes, const Linear& linear, Parameters& parameters) {
  std::vector<HostTensor> blocks;
  std::int64_t rows = 0;
  for (const Linear::Term& term : linear.terms) {
    blocks.push_back(parameters.read(term.weight));
    const Shape& shape = blocks.back().shape;
    if (shape.rank() != 2 || shape[1] != blocks[0].shape[1]) {
      base::fail(ErrorCode::kFormat, "the sum of products '{}' has matrices of several widths",
                 linear.name);
    }
    rows += shape[0];
  }
  const Features features = input_of(linear);
  const bool is_swapped = pair_of(nodes, features) == Pair::kBackwardFirst;
  if (blocks.size() == 1 && !is_swapped) return std::move(blocks[0]);
  HostTensor all = HostTensor::make(base::DType::kFloat32, {rows, blocks[0].shape[1]});
  const auto values = all.values<float>();
  auto to = values.begin();
  for (const HostTensor& block : blocks) to = std::ranges::copy(block.values<float>(), to).out;
  if (is_swapped) {
    const std::int64_t first = nodes[features[0].node].width * all.shape[1];
    std::rotate(values.begin(), values.begin() + first, values.end());
  }
  return all;
}

std::optional<HostTensor> bias_of(const Linear& linear, std::int64_t out, Parameters& parameters) {
  if (linear.bias.empty()) return std::nullopt;
  HostTensor bias = parameters.read(linear.bias);
  if (bias.shape.element_count() != out) {
    base::fail(ErrorCode::kFormat, "the bias '{}' has the shape {} for {} outputs", linear.bias,
               bias.shape.to_string(), out);
  }
  bias.shape = {out};
  return bias;
}

SourceCell cell_of(const Nodes& nodes, const Node::Recurrence& recurrence, Parameters& parameters,
                   Account& account) {
  const PaddleOp& op = *recurrence.op;
  SourceCell cell{.convention = Convention::kPaddle};
  HostTensor weight = parameters.read(only_input(op, "Weight"));
  cell.hidden = cell.output = weight.shape[0];
  const std::int64_t columns = weight.shape[1];
  cell.tensors["weight"] = std::move(weight);
  if (has_input(op, "Bias")) {
    cell.tensors["bias"] = parameters.read(only_input(op, "Bias"));
  }
  HostTensor input = weight_of(nodes, recurrence.input, parameters);
  cell.input = input.shape[0];
  cell.tensors["input_weight"] = std::move(input);
  if (std::optional<HostTensor> bias = bias_of(recurrence.input, columns, parameters)) {
    cell.tensors["input_bias"] = *std::move(bias);
  }
  cell.gate = activation_of(op, "gate_activation", "sigmoid");
  op.type == "gru" ? set_gru(op, cell, account) : set_lstm(op, cell, account);
  return cell;
}

}  // namespace sluice::interchange::paddle
