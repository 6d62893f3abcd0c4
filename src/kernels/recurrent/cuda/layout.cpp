#include "kernels/recurrent/cuda/layout.h"

#include <algorithm>
#include <optional>

#include "kernels/elementwise/cuda/dropout.h"
#include "kernels/recurrent/cuda/booking.h"
#include "kernels/recurrent/cuda/resident_weights.h"
#include "kernels/recurrent/cuda/rung_rules.h"
#include "kernels/recurrent/cuda/scaled_factors.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

PackedMatrix book_matrix(Booking& booking, const Sizes& sizes, std::int64_t rows,
                         std::int64_t columns, bool with_transpose, bool with_plain = true) {
  PackedMatrix matrix{rows, columns};
  matrix.has_transpose = with_transpose;
  if (with_plain) matrix.plain = booking.take(sizes.storage, {rows, columns});
  if (with_transpose) matrix.transposed = booking.take(sizes.storage, {rows, columns});
  return matrix;
}

/// Whether training reads weights transposed: in TF32, else only steps that are one kernel do.
bool transposes(const Descriptor& descriptor, const Rung& rung, bool by_fused_steps) {
  return rung.transposed && descriptor.training && (descriptor.tf32 || by_fused_steps);
}

PackedMatrix book_recurrent(Booking& booking, const Descriptor& descriptor, const Rung& rung,
                            std::int64_t layer) {
  const Sizes sizes(descriptor);
  const bool scales = scales_steps(descriptor, rung);
  if (!rung.persistent()) {
    if (scales) return {sizes.gate_width, sizes.hidden};
    return book_matrix(booking, sizes, sizes.gate_width, descriptor.output_of(layer),
                       transposes(descriptor, rung, rung.fused_step));
  }
  const PassBytes bytes = resident_weight_bytes(descriptor, rung);
  PackedMatrix matrix{sizes.gate_width, sizes.hidden};
  matrix.largest = booking.take(kFloat, {1});
  matrix.plain = booking.take(1, {bytes.forward});
  if (rung.persistent_backward()) {
    matrix.transposed = booking.take(1, {bytes.backward});
  } else if (descriptor.training && !scales) {
    matrix.has_transpose = true;
    matrix.transposed = booking.take(sizes.storage, {matrix.rows, matrix.columns});
  }
  return matrix;
}

StateLayout book_state(Booking& booking, const Descriptor& descriptor, const Sizes& sizes,
                       std::int64_t layer, std::int64_t saved_steps) {
  const std::int64_t output = descriptor.output_of(layer);
  const std::int64_t time = descriptor.training ? descriptor.time : 1, rows = descriptor.rows;
  StateLayout state;
  state.h = booking.take(sizes.storage, {time + 1, rows, output});
  if (sizes.lstm) {
    state.c = booking.take(kFloat, {descriptor.training ? time + 1 : 1, rows, sizes.hidden});
  }
  if (descriptor.training) {
    state.saved = booking.take(sizes.storage, {saved_steps, rows, sizes.saved_width});
  }
  if (sizes.projected) state.h_full = booking.take(sizes.storage, {time, rows, sizes.hidden});
  if (sizes.drops) state.h_dropped = booking.take(sizes.storage, {time + 1, rows, output});
  if (sizes.resets_before) state.h_reset = booking.take(sizes.storage, {time, rows, sizes.hidden});
  if (descriptor.training && sizes.fresh_cells) {
    state.c_fresh = booking.take(kFloat, {time, rows, sizes.hidden});
  }
  if (descriptor.training && sizes.norms) {
    state.norm_ih = booking.take(sizes.storage, {time, rows, sizes.gate_width});
    state.norm_hh = booking.take(sizes.storage, {time, rows, sizes.gate_width});
    state.norm_c = booking.take(sizes.storage, {time, rows, sizes.hidden});
    state.inverses = booking.take(kFloat, {time, rows, 3});
  }
  return state;
}

std::vector<RowScaledFactor> book_scaled_inputs(Booking& booking, const Descriptor& descriptor,
                                                const Rung& rung) {
  const std::int64_t steps = descriptor.time * descriptor.rows;
  std::vector<RowScaledFactor> inputs(static_cast<std::size_t>(descriptor.layers));
  const auto book = [&](std::int64_t width) { return book_scaled_rows(booking, steps, width); };
  std::int64_t widest = 0;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    if (!scales_input(descriptor, rung, layer)) continue;
    const std::int64_t width = descriptor.input_of(layer);
    widest = std::max(widest, width);
    if (is_layered(descriptor, rung)) inputs[static_cast<std::size_t>(layer)] = book(width);
  }
  // Layers that run one after the other share.
  if (widest > 0 && !is_layered(descriptor, rung)) inputs.assign(inputs.size(), book(widest));
  return inputs;
}

ForwardLayout book_forward(Booking& booking, const Descriptor& descriptor, const Rung& rung,
                           const ReserveLayout& reserve) {
  const Sizes sizes(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  ForwardLayout layout;
  std::optional<ArrayPlace> shared;
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    const InputPlace place = input_place(descriptor, rung, layer);
    if (place == InputPlace::kGatesOfTop) {
      layout.input.push_back({reserve.states.back().saved, true});
      continue;
    }
    if (place == InputPlace::kStatesAbove) {
      // States are booked one layer after another, each with h first.
      layout.input.push_back({reserve.states[static_cast<std::size_t>(layer + 1)].h, true});
      continue;
    }
    // Layers that run one after the other share.
    if (!shared || is_layered(descriptor, rung)) {
      const std::int64_t steps = input_steps(descriptor, rung, layer, time);
      shared = {booking.take(kFloat, {steps, rows, sizes.directions * sizes.gate_width})};
    }
    layout.input.push_back(*shared);
  }
  layout.scaled = book_scaled_inputs(booking, descriptor, rung);
  if (scales_steps(descriptor, rung) && !rung.persistent()) {
    layout.state = book_scaled_rows(booking, rows, sizes.hidden);
  }
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    const std::int64_t layer = i / sizes.directions;
    layout.recurrent.push_back(booking.take(kFloat, {rows, sizes.gate_width}));
    layout.projected.push_back(
        booking.take(kFloat, {sizes.projected ? rows : 0, descriptor.output_of(layer)}));
    layout.gates.push_back(
        booking.take(kFloat, {rung.fused_pointwise ? 0 : rows, sizes.saved_width}));
    if (!descriptor.training) {
      layout.states.push_back(book_state(booking, descriptor, sizes, layer, 0));
    }
  }
  for (std::int64_t layer = 0; !descriptor.training && layer + 1 < sizes.layers; ++layer) {
    layout.outputs.push_back(
        booking.take(sizes.storage, {time, rows, descriptor.input_of(layer + 1)}));
  }
  if (rung.persistent()) {
    layout.exchange = booking.take(
        1, {forward_exchanges(descriptor, rung), exchange_bytes(descriptor, rung).forward});
  }
  return layout;
}

}  // namespace

Sizes::Sizes(const Descriptor& descriptor)
    : layers(descriptor.layers),
      directions(descriptor.directions),
      gates(descriptor.gates()),
      hidden(descriptor.hidden),
      gate_width(gates * hidden),
      saved_width(saved_of(descriptor.cell) * hidden),
      storage(static_cast<std::int64_t>(base::size_of(descriptor.dtype))),
      lstm(descriptor.cell == CellType::kLstm),
      projected(descriptor.projects()),
      resets_before(descriptor.cell == CellType::kGruResetBefore),
      hidden_bias(descriptor.cell == CellType::kGru),
      carries_h(resets_before || hidden_bias),
      drops(descriptor.drops_recurrent()),
      norms(descriptor.layer_norm),
      gates_apart(hidden_bias || norms),
      fresh_cells(lstm && (descriptor.resets || descriptor.zoneout_c > 0)) {}

PackedLayout book_packed(const Descriptor& descriptor, const Rung& rung) {
  const Sizes sizes(descriptor);
  const bool with_transpose = transposes(descriptor, rung, false);
  Booking booking;
  PackedLayout layout;
  for (std::int64_t l = 0; l < sizes.layers; ++l) {
    PackedLayer layer;
    const std::int64_t all = sizes.directions * sizes.gate_width;
    layer.weight_ih = book_matrix(booking, sizes, all, descriptor.input_of(l),
                                  with_transpose && !scales_gates(descriptor, rung),
                                  reads_plain_input(descriptor, rung, l));
    if (scales_weights(descriptor, rung, l)) {
      layer.scaled_weight_ih = booking.take(kHalf, {all, descriptor.input_of(l)});
    }
    layer.bias = booking.take(kFloat, {all});
    for (std::int64_t d = 0; d < sizes.directions; ++d) {
      PackedDirection direction;
      direction.weight_hh = book_recurrent(booking, descriptor, rung, l);
      if (scales_steps(descriptor, rung)) {
        direction.scaled_weight_hh = booking.take(kHalf, {sizes.gate_width, sizes.hidden});
      }
      if (sizes.projected) {
        direction.weight_hr =
            book_matrix(booking, sizes, descriptor.output_of(l), sizes.hidden, with_transpose);
      }
      if (sizes.hidden_bias) direction.bias_hn = booking.take(kFloat, {sizes.hidden});
      if (descriptor.peepholes) direction.peepholes = booking.take(kFloat, {3, sizes.hidden});
      if (sizes.norms) {
        direction.gain_ih = booking.take(kFloat, {sizes.gate_width});
        direction.gain_hh = booking.take(kFloat, {sizes.gate_width});
        direction.gain_c = booking.take(kFloat, {sizes.hidden});
        direction.shift_c = booking.take(kFloat, {sizes.hidden});
      }
      layer.directions.push_back(direction);
    }
    layout.layers.push_back(std::move(layer));
  }
  layout.weight_scales = booking.take(
      sizeof(FactorScales), {scaled_matrices(descriptor, rung) / FactorScales::kMost + 1});
  layout.bytes = booking.total();
  return layout;
}

namespace {

/// Whether forward leaves dropout's masks to backward: of all inner layers or, where their widths
/// differ and one has none, of none.
bool leaves_masks(const Descriptor& descriptor) {
  bool all = descriptor.training && descriptor.dropout > 0;
  for (std::int64_t layer = 1; layer < descriptor.layers; ++layer) {
    all = all && elementwise::cuda::leaves_mask(descriptor.dtype, descriptor.input_of(layer));
  }
  return all;
}

}  // namespace

ReserveLayout book_reserve(const Descriptor& descriptor, const Rung& rung) {
  ReserveLayout layout;
  if (!descriptor.training) return layout;
  const Sizes sizes(descriptor);
  Booking booking;
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    const std::int64_t layer = i / sizes.directions;
    const bool next = gradient_place(descriptor, rung, layer) == GradientPlace::kNextGates;
    layout.states.push_back(
        book_state(booking, descriptor, sizes, layer, descriptor.time + (next ? 1 : 0)));
  }
  for (std::int64_t layer = 0; layer + 1 < sizes.layers; ++layer) {
    layout.outputs.push_back(booking.take(
        sizes.storage, {descriptor.time, descriptor.rows, descriptor.input_of(layer + 1)}));
    if (!leaves_masks(descriptor)) continue;
    const std::int64_t width = descriptor.input_of(layer + 1);
    layout.kept.push_back(booking.take(1, {descriptor.time, descriptor.rows, width / 8}));
  }
  layout.bytes = booking.total();
  return layout;
}

WorkspaceLayout book_workspace(const Descriptor& descriptor, const Rung& rung) {
  WorkspaceLayout layout;
  Booking forward, backward;
  const ReserveLayout reserve = book_reserve(descriptor, rung);
  layout.forward = book_forward(forward, descriptor, rung, reserve);
  layout.bytes = forward.total();
  if (descriptor.training) {
    layout.backward = book_backward(backward, descriptor, rung, reserve);
    layout.bytes = std::max(layout.bytes, backward.total());
  }
  return layout;
}

}  // namespace sluice::kernels::recurrent::cuda
