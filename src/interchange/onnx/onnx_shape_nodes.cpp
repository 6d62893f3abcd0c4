#include <algorithm>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_fold.h"
#include "interchange/onnx/onnx_walk.h"

// Nodes that compute shapes and zeros: exporters size initial states and reshapes with them.
namespace sluice::interchange::onnx {

using io::formats::OnnxNode;
using Kind = Axis::Kind;

namespace {

constexpr std::size_t kMostNumbers = 64;

/// The sum, difference, product or quotient; unknown unless both numbers are known and small.
Number compute(const std::string& op, const Number& a, const Number& b) {
  constexpr std::int64_t kMost = 1 << 30;
  const auto is_small = [](const Number& number) {
    return number.value && *number.value <= kMost && *number.value >= -kMost;
  };
  if (!is_small(a) || !is_small(b)) return {};
  if (op == "Add") return {*a.value + *b.value, {}};
  if (op == "Sub") return {*a.value - *b.value, {}};
  if (op == "Mul") return {*a.value * *b.value, {}};
  if (*b.value == 0) return {};
  return {*a.value / *b.value, {}};
}

/// The product of the numbers of a shape.
Number product_of(const std::vector<Number>& numbers) {
  if (numbers.size() == 1) return numbers[0];
  const bool are_axes = numbers.size() == 2 && numbers[0].axis && numbers[1].axis &&
                        !numbers[0].times && !numbers[1].times;
  if (are_axes) return {{}, numbers[0].axis, numbers[1].axis};
  Number product{1, {}};
  for (const Number& number : numbers) product = compute("Mul", product, number);
  return product;
}

bool is_arithmetic(const std::string& op) {
  return op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
}

}  // namespace

void Walk::shape(const OnnxNode& node) {
  const Data& data = require_data(node, 0);
  const auto rank = static_cast<std::int64_t>(data.axes.size());
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  Numbers numbers;
  const std::int64_t end = place(int_of(node, "end", rank));
  for (std::int64_t at = place(int_of(node, "start", 0)); at < end; ++at) {
    const Axis axis = data.axes[static_cast<std::size_t>(at)];
    const bool is_open =
        axis.kind == Kind::kInput || axis.kind == Kind::kTime || axis.kind == Kind::kBatch;
    Number number{size_of(data, axis), {}};
    if (is_open) number.axis = axis;
    if (axis.kind == Kind::kRows) number = {{}, data.rows[0], data.rows[1]};
    numbers.values.push_back(number);
  }
  put(node, std::move(numbers));
}

/// Nodes that only handle the numbers of shapes.
bool Walk::try_numbers(const OnnxNode& node) {
  const std::string& op = node.op_type;
  const bool spreads = op == "Expand" || op == "Tile";
  std::vector<Numbers> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (spreads && i > 0) break;
    std::optional<Numbers> numbers = numbers_input(node, i);
    if (!numbers) return false;
    inputs.push_back(std::move(*numbers));
  }
  if (inputs.empty()) return false;
  Numbers& first = inputs[0];
  if (op == "Identity" || op == "Cast") {
    put(node, first);
    return true;
  }
  if (op == "ReduceProd" && inputs.size() == 1) {
    const bool keeps = int_of(node, "keepdims", 1) != 0;
    put(node, Numbers{{product_of(first.values)}, !keeps});
    return true;
  }
  if (spreads && first.values.size() == 1) {
    put(node, Numbers{first.values, false, true});
    return true;
  }
  const bool reshapes_one = op == "Reshape" && first.values.size() == 1;
  if (op == "Unsqueeze" || op == "Squeeze" || reshapes_one) {
    if (first.values.size() != 1) return false;
    const bool to_scalar = op == "Squeeze" || (reshapes_one && inputs.back().values.empty());
    put(node, Numbers{first.values, to_scalar, first.is_spread});
    return true;
  }
  if (op == "Concat") {
    Numbers all;
    for (const Numbers& part : inputs) {
      if (part.is_scalar || part.is_spread) return false;
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    }
    if (all.values.size() > kMostNumbers) return false;
    put(node, std::move(all));
    return true;
  }
  const auto count = static_cast<std::int64_t>(first.values.size());
  const auto is_known = [](const Numbers& numbers) {
    return std::ranges::all_of(numbers.values, [](const Number& n) { return n.value.has_value(); });
  };
  if (op == "Gather" && inputs.size() == 2 && is_known(inputs[1])) {
    Numbers result{{}, inputs[1].is_scalar};
    for (const Number& index : inputs[1].values) {
      result.values.push_back(first.values[checked_axis(node, *index.value, first.values.size())]);
    }
    put(node, std::move(result));
    return true;
  }
  if (op == "Slice" && inputs.size() >= 3 && inputs.size() <= 4 && is_known(inputs[1]) &&
      is_known(inputs[2]) && inputs[1].values.size() == 1 && inputs[2].values.size() == 1) {
    const auto place = [&](const Numbers& at) {
      const std::int64_t value = *at.values[0].value;
      return std::clamp<std::int64_t>(value < 0 ? value + count : value, 0, count);
    };
    Numbers result;
    for (std::int64_t i = place(inputs[1]); i < place(inputs[2]); ++i) {
      result.values.push_back(first.values[static_cast<std::size_t>(i)]);
    }
    put(node, std::move(result));
    return true;
  }
  if (is_arithmetic(op) && inputs.size() == 2 && count == 1 && inputs[1].values.size() == 1) {
    const bool is_scalar = first.is_scalar && inputs[1].is_scalar;
    put(node, Numbers{{compute(op, first.values[0], inputs[1].values[0])}, is_scalar});
    return true;
  }
  return false;
}

/// Nodes that make zeros, or leave zeros as zeros.
bool Walk::try_zeros(const OnnxNode& node) {
  const std::string& op = node.op_type;
  if (op == "ConstantOfShape") {
    const std::optional<Constant> value = constant_of(node);
    if (value && !is_zero(node, *value)) return false;
    put(node, Zeros{});
    return true;
  }
  const bool keeps = op == "Expand" || op == "Tile" || op == "Unsqueeze" || op == "Squeeze" ||
                     op == "Slice" || op == "Transpose" || op == "Identity" || op == "Cast" ||
                     op == "Reshape" || op == "Gather" || op == "Split" || op == "Concat";
  if (!keeps) return false;
  const std::size_t count = op == "Concat" ? node.inputs.size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const Value* value = input(node, i);
    if (value == nullptr) return false;
    const auto* constant = std::get_if<Constant>(value);
    const bool is_nothing = std::holds_alternative<Zeros>(*value) ||
                            (op != "Gather" && constant != nullptr && is_zero(node, *constant));
    if (!is_nothing) return false;
  }
  for (std::size_t output = 0; output < node.outputs.size(); ++output) put(node, Zeros{}, output);
  return count > 0;
}

}  // namespace sluice::interchange::onnx
