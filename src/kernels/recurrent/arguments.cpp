#include "kernels/recurrent/arguments.h"

#include "base/check.h"

namespace sluice::kernels::recurrent {
namespace {

using base::Shape;

enum class Presence { kRequired, kOptional };

void check(const Tensor& tensor, const char* name, DType dtype, const Shape& shape,
           Presence presence) {
  if (!tensor) {
    SLUICE_CHECK(presence == Presence::kOptional, "the recurrent stack needs the tensor {} {}",
                 name, shape.to_string());
    return;
  }
  SLUICE_CHECK(tensor.shape() == shape, "{} of the recurrent stack has shape {}, not {}", name,
               tensor.shape().to_string(), shape.to_string());
  SLUICE_CHECK(tensor.dtype() == dtype, "{} of the recurrent stack is {}, not {}", name,
               base::name_of(tensor.dtype()), base::name_of(dtype));
  SLUICE_CHECK(tensor.is_contiguous(), "{} of the recurrent stack is not contiguous", name);
}

void check_layers(const Descriptor& descriptor, const std::vector<LayerWeights>& weights,
                  Presence presence) {
  const auto count = static_cast<std::size_t>(descriptor.layers * descriptor.directions);
  SLUICE_CHECK(weights.size() == count,
               "{} sets of weights given for {} layers and {} directions, not {}", weights.size(),
               descriptor.layers, descriptor.directions, count);
  const DType master = base::policy_of(descriptor.dtype).master;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t layer = static_cast<std::int64_t>(i) / descriptor.directions;
    const std::int64_t hidden = descriptor.hidden_of(layer), sums = descriptor.gates() * hidden;
    const std::int64_t input = descriptor.input_of(layer), output = descriptor.output_of(layer);
    check(weights[i].weight_ih, "weight_ih", master, {sums, input}, presence);
    check(weights[i].weight_hh, "weight_hh", master, {sums, output}, presence);
    check(weights[i].bias_ih, "bias_ih", master, {sums}, presence);
    check(weights[i].bias_hh, "bias_hh", master, {sums}, presence);
    if (descriptor.projects()) {
      check(weights[i].weight_hr, "weight_hr", master, {output, hidden}, presence);
    } else {
      SLUICE_CHECK(!weights[i].weight_hr, "weight_hr given, but the stack has no projection");
    }
    if (descriptor.peepholes) {
      check(weights[i].weight_peephole, "weight_peephole", master, {3, hidden}, presence);
    } else {
      SLUICE_CHECK(!weights[i].weight_peephole,
                   "weight_peephole given, but the stack has no peepholes");
    }
    if (descriptor.layer_norm) {
      check(weights[i].gain_ih, "gain_ih", master, {sums}, presence);
      check(weights[i].gain_hh, "gain_hh", master, {sums}, presence);
      check(weights[i].gain_c, "gain_c", master, {hidden}, presence);
      check(weights[i].shift_c, "shift_c", master, {hidden}, presence);
    } else {
      SLUICE_CHECK(
          !weights[i].gain_ih && !weights[i].gain_hh && !weights[i].gain_c && !weights[i].shift_c,
          "gains given, but the stack has no layer norm");
    }
  }
}

void check_no_cell_state(const Descriptor& descriptor, const Tensor& tensor,
                         std::string_view name) {
  SLUICE_CHECK(!tensor || descriptor.cell == CellType::kLstm,
               "{} given, but a {} has no cell state", name, name_of(descriptor.cell));
}

}  // namespace

std::optional<std::string> refuse_extras(const Descriptor& descriptor) {
  if (descriptor.resets) return "it takes no resets";
  if (descriptor.peepholes) return "it has no peepholes";
  if (descriptor.layer_norm) return "it has no layer norm";
  if (descriptor.zoneout_h > 0 || descriptor.zoneout_c > 0) return "it has no zoneout";
  if (descriptor.drops_recurrent()) return "it has no recurrent dropout";
  return std::nullopt;
}

std::optional<std::string> refuse_unusual_cell(const Descriptor& descriptor) {
  if (descriptor.cell == CellType::kLstm || descriptor.cell == CellType::kGru) return std::nullopt;
  return fmt::format("it has no {}", name_of(descriptor.cell));
}

void check_memory(const Plan& plan, const Memory& memory) {
  SLUICE_CHECK(memory.packed != nullptr || plan.packed_bytes() == 0,
               "the recurrent stack needs {} bytes for packed weights", plan.packed_bytes());
  SLUICE_CHECK(memory.workspace != nullptr || plan.workspace_bytes() == 0,
               "the recurrent stack needs {} bytes of workspace", plan.workspace_bytes());
  SLUICE_CHECK(memory.reserve != nullptr || plan.reserve_bytes() == 0,
               "the recurrent stack needs {} bytes of reserve", plan.reserve_bytes());
}

void check_weights(const Descriptor& descriptor, const std::vector<LayerWeights>& weights) {
  check_layers(descriptor, weights, Presence::kRequired);
}

void check_forward(const Descriptor& descriptor, const ForwardArgs& args) {
  SLUICE_CHECK(args.time >= 1 && args.time <= descriptor.time,
               "{} time steps given to a recurrent stack planned for 1 to {}", args.time,
               descriptor.time);
  SLUICE_CHECK(args.rows >= 1 && args.rows <= descriptor.rows,
               "{} rows given to a recurrent stack planned for 1 to {}", args.rows,
               descriptor.rows);
  const base::DTypePolicy policy = base::policy_of(descriptor.dtype);
  const Shape h = descriptor.h_shape(args.rows), c = descriptor.c_shape(args.rows);
  check(args.x, "x", policy.storage, {args.time, args.rows, descriptor.input}, Presence::kRequired);
  check(args.lengths, "lengths", DType::kInt32, {args.rows}, Presence::kOptional);
  check(args.h0, "h0", policy.storage, h, Presence::kOptional);
  check(args.c0, "c0", policy.cell_state, c, Presence::kOptional);
  check(args.y, "y", policy.storage, {args.time, args.rows, descriptor.y_width()},
        Presence::kRequired);
  check(args.hn, "hn", policy.storage, h, Presence::kOptional);
  check(args.cn, "cn", policy.cell_state, c, Presence::kOptional);
  check(args.c_sequence, "c_sequence", policy.cell_state,
        descriptor.c_sequence_shape(args.time, args.rows), Presence::kOptional);
  check(args.row_ids, "row_ids", DType::kInt32, {args.rows}, Presence::kOptional);
  check(args.resets, "resets", DType::kInt32, {args.time, args.rows}, Presence::kOptional);
  SLUICE_CHECK(!args.resets || descriptor.resets,
               "resets given to a recurrent stack planned without");
  check_no_cell_state(descriptor, args.c0, "c0");
  check_no_cell_state(descriptor, args.cn, "cn");
  check_no_cell_state(descriptor, args.c_sequence, "c_sequence");
}

void check_backward(const Descriptor& descriptor, const BackwardArgs& args) {
  SLUICE_CHECK(descriptor.training, "backward needs a recurrent stack planned for training");
  check_forward(descriptor, args.forward);
  const base::DTypePolicy policy = base::policy_of(descriptor.dtype);
  const std::int64_t rows = args.forward.rows, time = args.forward.time;
  const Shape h = descriptor.h_shape(rows), c = descriptor.c_shape(rows);
  check(args.dy, "dy", policy.storage, {time, rows, descriptor.y_width()}, Presence::kOptional);
  check(args.dhn, "dhn", policy.storage, h, Presence::kOptional);
  check(args.dcn, "dcn", policy.cell_state, c, Presence::kOptional);
  check(args.dx, "dx", policy.storage, {time, rows, descriptor.input}, Presence::kOptional);
  check(args.dh0, "dh0", policy.storage, h, Presence::kOptional);
  check(args.dc0, "dc0", policy.cell_state, c, Presence::kOptional);
  check_no_cell_state(descriptor, args.dcn, "dcn");
  check_no_cell_state(descriptor, args.dc0, "dc0");
  if (!args.gradients.empty()) {
    check_layers(descriptor, args.gradients, Presence::kOptional);
  }
}

}  // namespace sluice::kernels::recurrent
