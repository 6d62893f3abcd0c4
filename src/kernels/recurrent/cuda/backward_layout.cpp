#include <algorithm>
#include <optional>

#include "kernels/recurrent/cuda/booking.h"
#include "kernels/recurrent/cuda/cluster_backward/launch.h"
#include "kernels/recurrent/cuda/resident_weights.h"
#include "kernels/recurrent/cuda/rung_rules.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// How many layers after each other have gate gradients of their own.
std::int64_t held_d_inputs(const Descriptor& descriptor, const Rung& rung) {
  if (is_layered(descriptor, rung) || spreads_gradients(descriptor, rung)) return descriptor.layers;
  // One layer is through with them before the next begins, or the next but one.
  return defers_gradients(descriptor, rung) ? 2 : 1;
}

using Layer = std::optional<std::int64_t>;

/// Whether launches of one layer after the other write gate gradients over saved gates.
bool lends_gates(const Descriptor& descriptor, const Rung& rung) {
  return rung.persistent_backward() &&
         gradient_place(descriptor, rung, 0) != GradientPlace::kWorkspace;
}
/// The saved gates that a layer's gate gradients overwrite, if any.
std::optional<ArrayPlace> lent_gates(const Descriptor& descriptor, const Rung& rung,
                                     const ReserveLayout& reserve, std::int64_t layer) {
  const GradientPlace place = gradient_place(descriptor, rung, layer);
  if (place == GradientPlace::kWorkspace) return std::nullopt;
  const std::int64_t lender = place == GradientPlace::kGatesAbove ? layer + 1 : layer;
  return ArrayPlace{reserve.states[static_cast<std::size_t>(lender)].saved, true,
                    place == GradientPlace::kNextGates};
}
/// The layer whose c the gradient of a layer's output overwrites, if any.
Layer states_lender(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  if (!lends_gates(descriptor, rung)) return std::nullopt;
  // Products that write it overlap with launches of the layer above in wide/ alone
  // (await_turns, launch_rows).
  const std::int64_t lender = layer + (rung.backward == Residence::kWide ? 2 : 1);
  return lender < descriptor.layers ? Layer(lender) : std::nullopt;
}

/// `gates`: of the gates' gradients, too.
ScaledLayout book_scaled(Booking& booking, const Descriptor& descriptor, std::int64_t input,
                         bool gates) {
  const Sizes sizes(descriptor);
  const std::int64_t steps = descriptor.time * descriptor.rows, width = sizes.gate_width;
  ScaledLayout layout;
  if (gates) layout.d_input = booking.take(kHalf, {steps, sizes.directions * width});
  layout.input = booking.take(kHalf, {steps, input});
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    layout.h.push_back(booking.take(kHalf, {steps, sizes.hidden}));
    if (gates && sizes.gates_apart)
      layout.d_recurrent.push_back(booking.take(kHalf, {steps, width}));
  }
  layout.scales = booking.take(sizeof(FactorScales), {1});
  return layout;
}

/// Layers whose gradients are multiplied one after the other share.
std::vector<ScaledLayout> book_scaled(Booking& booking, const Descriptor& descriptor,
                                      const Rung& rung) {
  std::vector<ScaledLayout> layouts;
  if (!scales_gradients(descriptor, rung)) return layouts;
  const auto layers = static_cast<std::size_t>(descriptor.layers);
  if (is_layered(descriptor, rung)) {
    for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
      layouts.push_back(book_scaled(booking, descriptor, descriptor.input_of(layer), true));
    }
    return layouts;
  }
  const std::int64_t above = descriptor.layers > 1 ? descriptor.input_of(1) : 0;
  const std::int64_t input = std::max(descriptor.input_of(0), above);
  if (!scales_gates(descriptor, rung)) {
    layouts.assign(layers, book_scaled(booking, descriptor, input, true));
    return layouts;
  }
  // The first layer's are scaled beside the products of the layer above.
  for (std::size_t layer = 0; layer < layers; ++layer) {
    layouts.push_back(layer < 2 ? book_scaled(booking, descriptor, input, false)
                                : layouts[layer - 2]);
  }
  return layouts;
}

}  // namespace

BackwardLayout book_backward(Booking& booking, const Descriptor& descriptor, const Rung& rung,
                             const ReserveLayout& reserve) {
  const Sizes sizes(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  const std::int64_t lanes = lane_count(descriptor, rung);
  const std::int64_t held = held_d_inputs(descriptor, rung);
  const bool scaled = scales_gates(descriptor, rung);
  BackwardLayout layout;
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    const auto shared = static_cast<std::size_t>(layer - held);
    if (const auto lent = lent_gates(descriptor, rung, reserve, layer)) {
      layout.d_input.push_back(*lent);
    } else if (layer < held || lends_gates(descriptor, rung)) {
      layout.d_input.push_back({booking.take(scaled ? kHalf : sizes.storage,
                                             {time, rows, sizes.directions, sizes.gate_width})});
    } else {
      layout.d_input.push_back(layout.d_input[shared]);
    }
    if (scaled) {
      layout.row_scales.push_back(layer < held ? booking.take(kFloat, {time, rows})
                                               : layout.row_scales[shared]);
    }
    if (layer + 1 == sizes.layers) continue;
    if (const Layer lender = states_lender(descriptor, rung, layer)) {
      layout.dy.push_back({reserve.states[static_cast<std::size_t>(*lender)].c, true});
    } else {
      layout.dy.push_back(
          {booking.take(sizes.storage, {time, rows, descriptor.input_of(layer + 1)})});
    }
  }
  const std::int64_t apart = rung.fused_pointwise ? 0 : rows,
                     projected = sizes.projected ? rows : 0;
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    const std::int64_t output = descriptor.output_of(i / sizes.directions);
    layout.d_recurrent.push_back(booking.take(
        scaled ? kHalf : sizes.storage, {sizes.gates_apart ? time : 0, rows, sizes.gate_width}));
    const std::int64_t normed = sizes.norms ? time : 0;
    layout.d_sums.push_back(booking.take(sizes.storage, {normed, rows, sizes.gate_width}));
    layout.d_norm_c.push_back(booking.take(sizes.storage, {normed, rows, sizes.hidden}));
    layout.dh.push_back(booking.take(kFloat, {2 * parts_of_step(descriptor, rung), rows, output}));
    layout.dc.push_back(booking.take(kFloat, {sizes.lstm ? rows : 0, sizes.hidden}));
    layout.dh_out.push_back(booking.take(sizes.storage, {time, projected, output}));
    layout.dh_full.push_back(booking.take(kFloat, {projected, sizes.hidden}));
    const bool product_apart = sizes.drops || sizes.resets_before || scales_steps(descriptor, rung);
    const std::int64_t parts =
        scales_steps(descriptor, rung) ? parts_of_scaled_step(descriptor) : 1;
    layout.product.push_back(booking.take(kFloat, {product_apart ? parts * rows : 0, output}));
    layout.dh_whole.push_back(booking.take(kFloat, {apart, sizes.hidden}));
    layout.dc_whole.push_back(booking.take(kFloat, {apart, sizes.hidden}));
    if (rung.backward == Residence::kClusterWgmma) {
      layout.gate_sums.push_back(
          booking.take(kFloat, {cluster_backward::kMostSums, sizes.gate_width}));
    }
  }
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    layout.sums.push_back(booking.take(kFloat, {kColumnParts, sizes.gate_width}));
  }
  layout.scaled = book_scaled(booking, descriptor, rung);
  if (rung.persistent_backward()) {
    layout.exchange = booking.take(1, {exchange_bytes(descriptor, rung).backward});
  }
  return layout;
}

}  // namespace sluice::kernels::recurrent::cuda
