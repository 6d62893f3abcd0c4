#include <algorithm>
#include <limits>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_fold.h"
#include "interchange/onnx/onnx_walk.h"

// Nodes that take a part of a tensor, join parts, or reduce the time axis.
namespace sluice::interchange::onnx {

using io::formats::OnnxNode;
using Kind = Axis::Kind;

namespace {

// Exporters write the largest int32 or int64 for "to the end".
constexpr std::int64_t kEnd = std::numeric_limits<std::int32_t>::max();

}  // namespace

void Walk::gather(const OnnxNode& node) {
  if (constant_input(node, 0)) return embed(node, require_data(node, 1));
  Data data = require_data(node, 0);
  const std::optional<Numbers> indices = numbers_input(node, 1);
  if (!indices || indices->values.size() != 1 || !indices->values[0].value ||
      *indices->values[0].value >= kEnd) {
    base::fail(ErrorCode::kUnsupported,
               "{} picks by numbers that depend on the input, or by several; Sluice reads a single "
               "constant one",
               describe(node));
  }
  const std::int64_t at = *indices->values[0].value;
  const std::size_t axis = checked_axis(node, int_of(node, "axis", 0), data.axes.size());
  select(node, data, axis, at, at == -1 ? kEnd : at + 1);
  if (indices->is_scalar) {
    data.axes.erase(data.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  put(node, std::move(data));
}

void Walk::slice(const OnnxNode& node) {
  Data data = require_data(node, 0);
  const bool is_old = node.inputs.size() == 1;
  const auto starts = is_old ? ints_of(node, "starts") : integers_input(node, 1);
  const auto ends = is_old ? ints_of(node, "ends") : integers_input(node, 2);
  const auto axes = is_old ? ints_of(node, "axes") : integers_input(node, 3);
  const bool has_axes = axes || node.inputs.size() > 3;
  if (!starts || !ends || starts->size() != ends->size() || (has_axes && !axes) ||
      (axes && axes->size() != starts->size())) {
    base::fail(ErrorCode::kUnsupported, "{} slices by numbers that are not constant",
               describe(node));
  }
  const bool has_steps = node.inputs.size() > 4 && !node.inputs[4].empty();
  const auto steps = integers_input(node, 4);
  if (has_steps && (!steps || std::ranges::any_of(*steps, [](auto step) { return step != 1; }))) {
    base::fail(ErrorCode::kUnsupported,
               "{} slices with another step than 1 (a reversal?), which is not read",
               describe(node));
  }
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t axis = axes ? (*axes)[i] : static_cast<std::int64_t>(i);
    select(node, data, checked_axis(node, axis, data.axes.size()), (*starts)[i], (*ends)[i]);
  }
  put(node, std::move(data));
}

void Walk::split(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const std::size_t axis = checked_axis(node, int_of(node, "axis", 0), data.axes.size());
  const std::optional<std::int64_t> size = size_of(data, data.axes[axis]);
  const auto count = static_cast<std::int64_t>(node.outputs.size());
  auto sizes = node.inputs.size() > 1 ? integers_input(node, 1) : ints_of(node, "split");
  if (!sizes && node.inputs.size() < 2 && size && count > 0 && *size % count == 0) {
    sizes.emplace(static_cast<std::size_t>(count), *size / count);
  }
  const auto is_wrong = [](std::int64_t part) { return part < 0 || part > kEnd; };
  if (!sizes || sizes->size() != node.outputs.size() || std::ranges::any_of(*sizes, is_wrong)) {
    base::fail(ErrorCode::kUnsupported, "{} splits into parts of sizes that are not known",
               describe(node));
  }
  std::int64_t first = 0;
  for (std::size_t output = 0; output < sizes->size(); ++output) {
    Data part = data;
    const std::int64_t last = first + (*sizes)[output];
    select(node, part, axis, first, last);
    put(node, std::move(part), output);
    first = last;
  }
}

void Walk::select(const OnnxNode& node, Data& data, std::size_t index, std::int64_t first,
                  std::int64_t last) {
  const Axis axis = resolve(data.axes[index]);
  const std::optional<std::int64_t> size = size_of(data, data.axes[index]);
  if (size) {
    if (first < 0) first += *size;
    if (last < 0) last += *size;
    last = std::min(last, *size);
    if (first < 0 || first >= last) {
      base::fail(ErrorCode::kUnsupported, "{} takes nothing of axis {}", describe(node), index);
    }
  }
  const bool is_all = first == 0 && (size ? last == *size : last >= kEnd);
  if (is_all) return;
  if (axis.kind == Kind::kDirection || axis.kind == Kind::kFeature) {
    return select_pieces(node, data, first, last, axis.kind == Kind::kFeature);
  }
  const bool is_end = size ? first == *size - 1 : (first == -1 && last >= kEnd);
  const bool is_start = first == 0 && last == 1;
  if (axis.kind == Kind::kTime && (is_end || is_start)) {
    read_time(data, is_end);
    data.axes[index] = {Kind::kOne};
    if (has_lengths_ && noted_.insert(" last").second) {
      account_.assume(
          fmt::format("{}: a step of the padded batch; Sluice reads the last step of "
                      "each row",
                      describe(node)));
    }
    return;
  }
  const bool is_input = data.pieces.size() == 1 && data.pieces[0].step->layer == nullptr;
  if (axis.kind == Kind::kInput && is_input) {
    data.is_cut = true;  // a state of one of several layers
    return;
  }
  base::fail(ErrorCode::kUnsupported, "{} takes a part of axis {} of a tensor with the axes {}",
             describe(node), index, describe_axes(data.axes));
}

void Walk::select_pieces(const OnnxNode& node, Data& data, std::int64_t first, std::int64_t last,
                         bool by_features) const {
  std::vector<Piece> chosen;
  std::int64_t at = 0;
  bool fits = true;
  for (const Piece& piece : data.pieces) {
    const std::int64_t next = at + (by_features ? piece.width.value_or(0) : 1);
    if (at >= first && next <= last) {
      chosen.push_back(piece);
    } else if (next > first && at < last) {
      fits = false;
    }
    at = next;
  }
  if (!fits || chosen.empty() || (by_features && data.pieces.size() == 1)) {
    base::fail(ErrorCode::kUnsupported, "{} takes some features of a layer alone", describe(node));
  }
  data.pieces = std::move(chosen);
}

void Walk::read_time(Data& data, bool is_last) {
  for (Piece& piece : data.pieces) {
    piece.read = (piece.part == Part::kBackward) != is_last ? Read::kFinal : Read::kFirst;
  }
}

void Walk::concat(const OnnxNode& node) {
  Data all = require_data(node, 0);
  const std::size_t axis = checked_axis(node, int_of(node, "axis", 0), all.axes.size());
  const Kind kind = resolve(all.axes[axis]).kind;
  const bool has_directions =
      std::ranges::find(all.axes, Kind::kDirection, &Axis::kind) != all.axes.end();
  if (node.inputs.size() == 1) return put(node, std::move(all));
  const bool joins = kind == Kind::kDirection || (kind == Kind::kFeature && !has_directions);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const Data& part = require_data(node, i);
    bool is_alike = joins && all.rows.empty() && part.rows.empty() &&
                    part.axes.size() == all.axes.size() && part.is_cell_state == all.is_cell_state;
    for (std::size_t k = 0; is_alike && k < part.axes.size(); ++k) {
      is_alike = resolve(part.axes[k]) == resolve(all.axes[k]);
    }
    if (!is_alike) {
      base::fail(ErrorCode::kUnsupported,
                 "{} joins tensors with the axes {} and {} along axis {}, which is not read",
                 describe(node), describe_axes(all.axes), describe_axes(part.axes), axis);
    }
    all.pieces.insert(all.pieces.end(), part.pieces.begin(), part.pieces.end());
    if (all.pieces.size() > 64) {
      base::fail(ErrorCode::kUnsupported, "{} joins more than 64 tensors", describe(node));
    }
  }
  put(node, std::move(all));
}

void Walk::reduce(const OnnxNode& node) {
  const Data data = require_data(node, 0);
  const auto axes = axes_of(node, constant_input(node, 1), path_);
  const bool is_open =
      node.inputs.size() > 1 && !node.inputs[1].empty() && !constant_input(node, 1);
  const std::size_t axis = axes && axes->size() == 1 && !is_open
                               ? checked_axis(node, (*axes)[0], data.axes.size())
                               : data.axes.size();
  if (axis == data.axes.size() || resolve(data.axes[axis]).kind != Kind::kTime) {
    base::fail(ErrorCode::kUnsupported,
               "{} reduces a tensor with the axes {} along others than time", describe(node),
               describe_axes(data.axes));
  }
  const StepPointer before = settle(data, describe(node));
  const char* kind = node.op_type == "ReduceMean" ? "mean" : "max";
  std::vector<Axis> rest = data.axes;
  if (int_of(node, "keepdims", 1) != 0) {
    rest[axis] = {Kind::kOne};
  } else {
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  if (has_lengths_) {
    account_.assume(fmt::format("{}: all steps of the padded batch; Sluice reads those of each row",
                                describe(node)));
  }
  put(node,
      output_of(append(before, PoolingLayer{onnx::name_of(node), kind}, before->width), rest));
}

}  // namespace sluice::interchange::onnx
