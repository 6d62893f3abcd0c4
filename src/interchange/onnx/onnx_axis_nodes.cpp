#include <algorithm>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_fold.h"
#include "interchange/onnx/onnx_walk.h"

// Nodes that move, join or name axes and compute nothing.
namespace sluice::interchange::onnx {

using io::formats::OnnxNode;
using Kind = Axis::Kind;

void Walk::same(const OnnxNode& node) {
  if (node.op_type == "Dropout" && node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const std::optional<Constant> training = constant_input(node, 2);
    const bool trains = !training || !training->stored || training->stored->external ||
                        std::ranges::any_of(training->stored->data,
                                            [](std::byte byte) { return byte != std::byte{0}; });
    if (trains) {
      base::fail(ErrorCode::kUnsupported, "{} may drop numbers, since it is in training mode",
                 describe(node));
    }
  }
  Data data = require_data(node, 0);
  if (node.op_type == "Cast") cast(node, data);
  put(node, std::move(data));
}

/// Refuses casts that cut off fractions of numbers, which ids from a graph input do not have.
void Walk::cast(const OnnxNode& node, Data& data) {
  const bool is_input = data.pieces.size() == 1 && data.pieces[0].step->layer == nullptr;
  const bool to_integers = casts_to_integers(node);
  if ((to_integers && !is_input) || (!to_integers && data.is_integer)) {
    base::fail(ErrorCode::kUnsupported, "{} rounds numbers to integers, which Sluice does not",
               describe(node));
  }
  data.is_integer = to_integers;
}

void Walk::transpose(const OnnxNode& node) {
  Data data = require_data(node, 0);
  const std::size_t rank = data.axes.size();
  std::vector<std::int64_t> perm;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    perm.push_back(static_cast<std::int64_t>(rank - 1 - axis));
  }
  perm = ints_of(node, "perm").value_or(perm);
  std::vector<std::int64_t> sorted = perm;
  std::ranges::sort(sorted);
  for (std::size_t axis = 0; axis < sorted.size(); ++axis) {
    if (sorted[axis] != static_cast<std::int64_t>(axis)) sorted.clear();
  }
  if (sorted.size() != rank) {
    base::fail(ErrorCode::kFormat, "{} has a 'perm' that is no order of {} axes", describe(node),
               rank);
  }
  const std::vector<Axis> before = data.axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    data.axes[axis] = before[static_cast<std::size_t>(perm[axis])];
  }
  put(node, std::move(data));
}

void Walk::squeeze(const OnnxNode& node) {
  Data data = require_data(node, 0);
  const auto axes = axes_of(node, constant_input(node, 1), path_);
  if (!axes) {
    base::fail(ErrorCode::kUnsupported, "{} does not say which axes it removes", describe(node));
  }
  std::vector<bool> goes(data.axes.size(), false);
  for (const std::int64_t one : *axes) {
    const std::size_t axis = checked_axis(node, one, goes.size());
    if (!is_trivial(data, data.axes[axis]) && size_of(data, data.axes[axis]) != 1) {
      base::fail(ErrorCode::kUnsupported, "{} removes axis {} of a tensor with the axes {}",
                 describe(node), one, describe_axes(data.axes));
    }
    goes[axis] = true;
  }
  std::vector<Axis> kept;
  for (std::size_t axis = 0; axis < goes.size(); ++axis) {
    if (!goes[axis]) kept.push_back(data.axes[axis]);
  }
  data.axes = std::move(kept);
  put(node, std::move(data));
}

void Walk::unsqueeze(const OnnxNode& node) {
  Data data = require_data(node, 0);
  const auto axes = axes_of(node, constant_input(node, 1), path_);
  if (!axes || axes->size() > base::Shape::kMaxRank) {
    base::fail(ErrorCode::kUnsupported, "{} does not say which axes it adds", describe(node));
  }
  const std::size_t rank = data.axes.size() + axes->size();
  std::vector<bool> is_new(rank, false);
  for (const std::int64_t axis : *axes) is_new[checked_axis(node, axis, rank)] = true;
  std::vector<Axis> result;
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (is_new[axis] || next == data.axes.size()) {
      result.push_back({Kind::kOne});
    } else {
      result.push_back(data.axes[next++]);
    }
  }
  data.axes = std::move(result);
  put(node, std::move(data));
}

void Walk::flatten(const OnnxNode& node) {
  const Data& data = require_data(node, 0);
  const std::int64_t axis = int_of(node, "axis", 1);
  if (axis != 1 || data.axes.empty()) {
    base::fail(ErrorCode::kUnsupported, "{} flattens at axis {}; Sluice reads axis 1",
               describe(node), axis);
  }
  regroup(node, data, {{0, {}}, {-1, {}}});
}

void Walk::reshape(const OnnxNode& node) {
  const Data& data = require_data(node, 0);
  const std::optional<Numbers> wanted = numbers_input(node, 1);
  if (!wanted || wanted->is_scalar || wanted->is_spread || int_of(node, "allowzero", 0) != 0) {
    base::fail(ErrorCode::kUnsupported, "{} reshapes to a shape that is not known", describe(node));
  }
  regroup(node, data, wanted->values);
}

/// Splits rows into their two axes if the wanted shape has more axes.
Data Walk::with_rows_apart(const Data& data, std::size_t wanted) const {
  const auto rows = std::ranges::find(data.axes, Kind::kRows, &Axis::kind);
  const auto present = static_cast<std::size_t>(
      std::ranges::count_if(data.axes, [&](const Axis& axis) { return !is_trivial(data, axis); }));
  if (rows == data.axes.end() || wanted <= present) return data;
  SLUICE_ASSERT(data.rows.size() == 2);
  Data result = data;
  const auto at = result.axes.begin() + (rows - data.axes.begin());
  *at = data.rows[1];
  result.axes.insert(at, data.rows[0]);
  result.rows.clear();
  return result;
}

/// [time, batch, features] as [time x batch, features]; empty if another shape is wanted.
std::optional<Data> Walk::with_rows_joined(const Data& data,
                                           const std::vector<Number>& wanted) const {
  const auto is_open = [&](std::size_t index) {
    const Kind kind = resolve(data.axes[index]).kind;
    return kind == Kind::kInput || kind == Kind::kTime || kind == Kind::kBatch;
  };
  if (wanted.size() != 2 || data.axes.size() != 3 || !is_open(0) || !is_open(1)) {
    return std::nullopt;
  }
  const Number &rows = wanted[0], &features = wanted[1];
  const bool is_product = rows.axis && rows.times && resolve(*rows.axis) == resolve(data.axes[0]) &&
                          resolve(*rows.times) == resolve(data.axes[1]);
  const std::optional<std::int64_t> width = size_of(data, data.axes[2]);
  const bool keeps_features = features.value && !features.axis &&
                              (features.value == width || (features.value == -1 && is_product));
  if (!keeps_features || !(is_product || (rows.value == -1 && !rows.axis))) return std::nullopt;
  Data result = data;
  result.axes = {{Kind::kRows}, data.axes[2]};
  result.rows = {data.axes[0], data.axes[1]};
  return result;
}

/// Takes each wanted size as an axis of the tensor, or as the features of both directions.
void Walk::regroup(const OnnxNode& node, const Data& whole, const std::vector<Number>& wanted) {
  if (std::optional<Data> joined = with_rows_joined(whole, wanted)) {
    return put(node, std::move(*joined));
  }
  const auto wanted_axes = static_cast<std::size_t>(
      std::ranges::count_if(wanted, [](const Number& number) { return number.value != 1; }));
  const Data data = with_rows_apart(whole, wanted_axes);
  Data result = data;
  result.axes.clear();
  std::size_t next = 0;
  const auto skip_trivial = [&] {
    while (next < data.axes.size() && is_trivial(data, data.axes[next])) ++next;
  };
  const auto refuse = [&] {
    base::fail(ErrorCode::kUnsupported, "{} mixes the axes {}, which is not read", describe(node),
               describe_axes(data.axes));
  };
  for (std::size_t index = 0; index < wanted.size(); ++index) {
    const Number& number = wanted[index];
    const bool is_copy = number.value == 0 && !number.axis;
    if (is_copy && index >= data.axes.size()) refuse();
    const bool is_one = number.value == 1 && (!number.axis || number.axis->kind != Kind::kInput);
    if ((is_copy && is_trivial(data, data.axes[index])) || is_one) {
      result.axes.push_back({Kind::kOne});
      continue;
    }
    skip_trivial();
    if (next >= data.axes.size()) {
      if (number.value == -1) {
        result.axes.push_back({Kind::kOne});
        continue;
      }
      refuse();
    }
    const Axis axis = data.axes[next++];
    const std::optional<std::int64_t> size = size_of(data, axis);
    const bool is_same_place = is_copy && index == next - 1;
    const bool is_same_axis =
        !is_copy && number.axis && !number.times && resolve(*number.axis) == resolve(axis);
    const bool merges = axis.kind == Kind::kDirection && next < data.axes.size() &&
                        data.axes[next].kind == Kind::kFeature;
    const auto merged = [&]() -> std::optional<std::int64_t> {
      const std::optional<std::int64_t> width = width_of(data);
      if (!merges || !width) return std::nullopt;
      return *size * *width;
    };
    if (merges && !is_copy && !is_same_axis && number.value &&
        (number.value == -1 || number.value == merged()) && index + 1 == wanted.size()) {
      ++next;
      result.axes.push_back({Kind::kFeature});
    } else if (is_same_place || is_same_axis || (number.value && number.value == size) ||
               (number.value == -1 && axis.kind != Kind::kDirection)) {
      result.axes.push_back(axis);
    } else {
      refuse();
    }
  }
  skip_trivial();
  if (next != data.axes.size()) refuse();
  put(node, std::move(result));
}

}  // namespace sluice::interchange::onnx
