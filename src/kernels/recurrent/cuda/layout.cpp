#include "kernels/recurrent/cuda/layout.h"

#include <algorithm>
#include <initializer_list>

#include "base/shape.h"
#include "kernels/recurrent/cuda/cluster_backward/launch.h"
#include "kernels/recurrent/cuda/resident_weights.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "kernels/recurrent/cuda/wide/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Hands out offsets one after another.
class Booking {
 public:
  std::size_t take(std::int64_t element_bytes, std::initializer_list<std::int64_t> extents) {
    constexpr std::size_t kAlignment = 256;
    std::size_t bytes = static_cast<std::size_t>(element_bytes);
    for (const std::int64_t extent : extents) {
      bytes = base::checked_mul(bytes, static_cast<std::size_t>(extent));
    }
    const std::size_t offset = total_;
    total_ = base::checked_add(total_, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return offset;
  }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

constexpr std::int64_t kFloat = sizeof(float), kHalf = 2;
/// cuBLASLt multiplies float16 fast where each row begins at 16 bytes: a multiple of so many.
constexpr std::int64_t kAligned = 8;

PackedMatrix book_matrix(Booking& booking, const Sizes& sizes, std::int64_t rows,
                         std::int64_t columns, bool with_transpose) {
  PackedMatrix matrix{rows, columns};
  matrix.has_transpose = with_transpose;
  matrix.plain = booking.take(sizes.storage, {rows, columns});
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
  if (!rung.persistent()) {
    return book_matrix(booking, sizes, sizes.gate_width, descriptor.output_of(layer),
                       transposes(descriptor, rung, rung.fused_step));
  }
  const PassBytes bytes = resident_weight_bytes(descriptor, rung);
  PackedMatrix matrix{sizes.gate_width, sizes.hidden};
  matrix.largest = booking.take(kFloat, {1});
  matrix.plain = booking.take(1, {bytes.forward});
  if (rung.persistent_backward()) {
    matrix.transposed = booking.take(1, {bytes.backward});
  } else if (descriptor.training) {
    matrix.has_transpose = true;
    matrix.transposed = booking.take(sizes.storage, {matrix.rows, matrix.columns});
  }
  return matrix;
}

StateLayout book_state(Booking& booking, const Descriptor& descriptor, const Sizes& sizes,
                       std::int64_t layer) {
  const std::int64_t output = descriptor.output_of(layer);
  const std::int64_t time = descriptor.training ? descriptor.time : 1, rows = descriptor.rows;
  StateLayout state;
  state.h = booking.take(sizes.storage, {time + 1, rows, output});
  if (sizes.lstm) {
    state.c = booking.take(kFloat, {descriptor.training ? time + 1 : 1, rows, sizes.hidden});
  }
  if (descriptor.training) {
    state.saved = booking.take(sizes.storage, {time, rows, sizes.saved_width});
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

std::vector<ScaledInput> book_scaled_inputs(Booking& booking, const Descriptor& descriptor,
                                            const Rung& rung) {
  const std::int64_t steps = descriptor.time * descriptor.rows;
  std::vector<ScaledInput> inputs(static_cast<std::size_t>(descriptor.layers));
  const auto book = [&](std::int64_t width) {
    ScaledInput input;
    input.values = booking.take(kHalf, {steps, width});
    input.scales = booking.take(kFloat, {steps});
    return input;
  };
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

ForwardLayout book_forward(Booking& booking, const Descriptor& descriptor, const Rung& rung) {
  const Sizes sizes(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  ForwardLayout layout;
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    // Layers that run one after the other share.
    const bool own = layer == 0 || is_layered(descriptor, rung);
    const std::int64_t steps = input_steps(descriptor, rung, layer, time);
    layout.input.push_back(
        own ? booking.take(kFloat, {steps, rows, sizes.directions * sizes.gate_width})
            : layout.input.front());
  }
  layout.scaled = book_scaled_inputs(booking, descriptor, rung);
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    const std::int64_t layer = i / sizes.directions;
    layout.recurrent.push_back(booking.take(kFloat, {rows, sizes.gate_width}));
    layout.projected.push_back(
        booking.take(kFloat, {sizes.projected ? rows : 0, descriptor.output_of(layer)}));
    layout.gates.push_back(
        booking.take(kFloat, {rung.fused_pointwise ? 0 : rows, sizes.saved_width}));
    if (!descriptor.training) {
      layout.states.push_back(book_state(booking, descriptor, sizes, layer));
    }
  }
  for (std::int64_t layer = 0; !descriptor.training && layer + 1 < sizes.layers; ++layer) {
    layout.outputs.push_back(
        booking.take(sizes.storage, {time, rows, descriptor.input_of(layer + 1)}));
  }
  if (rung.persistent()) {
    layout.exchange = booking.take(1, {forward_exchanges(descriptor, rung),
                                       exchange_bytes(descriptor, rung).forward});
  }
  return layout;
}

/// How many layers after each other have gate gradients of their own.
std::int64_t held_d_inputs(const Descriptor& descriptor, const Rung& rung) {
  if (is_layered(descriptor, rung) || spreads_gradients(descriptor, rung)) return descriptor.layers;
  // One layer is through with them before the next begins, or the next but one.
  return defers_gradients(descriptor, rung) ? 2 : 1;
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
    if (sizes.gates_apart) layout.d_recurrent.push_back(booking.take(kHalf, {steps, width}));
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
  if (!launches_scale(descriptor, rung)) {
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

BackwardLayout book_backward(Booking& booking, const Descriptor& descriptor, const Rung& rung) {
  const Sizes sizes(descriptor);
  const std::int64_t time = descriptor.time, rows = descriptor.rows;
  const std::int64_t lanes = lane_count(descriptor, rung);
  const std::int64_t held = held_d_inputs(descriptor, rung);
  const bool scaled = launches_scale(descriptor, rung);
  BackwardLayout layout;
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    const auto shared = static_cast<std::size_t>(layer - held);
    layout.d_input.push_back(layer < held
                                 ? booking.take(scaled ? kHalf : sizes.storage,
                                                {time, rows, sizes.directions, sizes.gate_width})
                                 : layout.d_input[shared]);
    if (scaled) {
      layout.row_scales.push_back(layer < held ? booking.take(kFloat, {time, rows})
                                               : layout.row_scales[shared]);
    }
    if (layer + 1 < sizes.layers) {
      layout.dy.push_back(
          booking.take(sizes.storage, {time, rows, descriptor.input_of(layer + 1)}));
    }
  }
  const std::int64_t apart = rung.fused_pointwise ? 0 : rows,
                     projected = sizes.projected ? rows : 0;
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    const std::int64_t output = descriptor.output_of(i / sizes.directions);
    layout.d_recurrent.push_back(
        booking.take(sizes.storage, {sizes.gates_apart ? time : 0, rows, sizes.gate_width}));
    const std::int64_t normed = sizes.norms ? time : 0;
    layout.d_sums.push_back(booking.take(sizes.storage, {normed, rows, sizes.gate_width}));
    layout.d_norm_c.push_back(booking.take(sizes.storage, {normed, rows, sizes.hidden}));
    layout.dh.push_back(booking.take(kFloat, {2, rows, output}));
    layout.dc.push_back(booking.take(kFloat, {sizes.lstm ? rows : 0, sizes.hidden}));
    layout.dh_out.push_back(booking.take(sizes.storage, {time, projected, output}));
    layout.dh_full.push_back(booking.take(kFloat, {projected, sizes.hidden}));
    layout.product.push_back(
        booking.take(kFloat, {sizes.drops || sizes.resets_before ? rows : 0, output}));
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
                                  with_transpose && !launches_scale(descriptor, rung));
    if (scales_weights(descriptor, rung, l)) {
      layer.scaled_weight_ih = booking.take(kHalf, {all, descriptor.input_of(l)});
    }
    layer.bias = booking.take(kFloat, {all});
    for (std::int64_t d = 0; d < sizes.directions; ++d) {
      PackedDirection direction;
      direction.weight_hh = book_recurrent(booking, descriptor, rung, l);
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
  layout.weight_scales = booking.take(sizeof(FactorScales),
                                      {sizes.layers * sizes.directions / FactorScales::kMost + 1});
  layout.bytes = booking.total();
  return layout;
}

ReserveLayout book_reserve(const Descriptor& descriptor) {
  ReserveLayout layout;
  if (!descriptor.training) return layout;
  const Sizes sizes(descriptor);
  Booking booking;
  for (std::int64_t i = 0; i < sizes.layers * sizes.directions; ++i) {
    layout.states.push_back(book_state(booking, descriptor, sizes, i / sizes.directions));
  }
  for (std::int64_t layer = 0; layer + 1 < sizes.layers; ++layer) {
    layout.outputs.push_back(booking.take(
        sizes.storage, {descriptor.time, descriptor.rows, descriptor.input_of(layer + 1)}));
  }
  layout.bytes = booking.total();
  return layout;
}

WorkspaceLayout book_workspace(const Descriptor& descriptor, const Rung& rung) {
  WorkspaceLayout layout;
  Booking forward, backward;
  layout.forward = book_forward(forward, descriptor, rung);
  layout.bytes = forward.total();
  if (descriptor.training) {
    layout.backward = book_backward(backward, descriptor, rung);
    layout.bytes = std::max(layout.bytes, backward.total());
  }
  return layout;
}

bool is_layered(const Descriptor& descriptor, const Rung& rung) {
  return rung.wavefront && descriptor.directions == 1 && descriptor.layers > 1 &&
         descriptor.time > 1;
}

bool takes_halves(const Descriptor& descriptor, const Rung& rung, std::int64_t time) {
  return rung.forward == Residence::kWide &&
         wide::halves_pay(descriptor, time);
}

std::int64_t forward_exchanges(const Descriptor& descriptor, const Rung& rung) {
  if (rung.forward != Residence::kWide) return 1;
  return descriptor.layers * (takes_halves(descriptor, rung, descriptor.time) ? 2 : 1);
}

bool spreads_gradients(const Descriptor& descriptor, const Rung& rung) {
  return rung.wavefront && !rung.persistent() && descriptor.training && descriptor.time == 1 &&
         descriptor.directions == 1;
}

std::int64_t step_lanes(const Descriptor& descriptor, const Rung& rung) {
  if (!rung.wavefront) return 1;
  if (descriptor.directions == 2) return rung.persistent() ? 1 : 2;
  return is_layered(descriptor, rung) ? descriptor.layers : 1;
}

bool scales_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  // Of so many multiplications the time that is won is worth a conversion of both factors.
  constexpr std::int64_t kFewest = std::int64_t{1} << 32;
  const std::int64_t input = descriptor.input_of(layer);
  const std::int64_t width = descriptor.directions * descriptor.gates() * descriptor.hidden;
  return rung.scaled_products && descriptor.tf32 && descriptor.time > 1 && input % kAligned == 0 &&
         descriptor.hidden % kAligned == 0 &&
         descriptor.time * descriptor.rows * width * input >= kFewest;
}

bool scales_weights(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  return scales_input(descriptor, rung, layer) || launches_scale(descriptor, rung);
}

bool scales_gradients(const Descriptor& descriptor, const Rung& rung) {
  return rung.scaled_products && descriptor.tf32 && descriptor.training &&
         descriptor.cell != CellType::kGruResetBefore && !descriptor.projects() &&
         descriptor.input % kAligned == 0 && descriptor.hidden % kAligned == 0;
}

bool pays_to_scale(const Descriptor& descriptor, std::int64_t layer, std::int64_t steps) {
  constexpr std::int64_t kFewest = std::int64_t{1} << 32;
  const std::int64_t width = descriptor.directions * descriptor.gates() * descriptor.hidden;
  return steps * width * (descriptor.input_of(layer) + descriptor.hidden) >= kFewest;
}

bool launches_scale(const Descriptor& descriptor, const Rung& rung) {
  if (!scales_gradients(descriptor, rung)) return false;
  if (rung.backward != Residence::kWide || descriptor.cell != CellType::kLstm) return false;
  if (descriptor.directions > 1) return false;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    if (!pays_to_scale(descriptor, layer, descriptor.time * descriptor.rows)) return false;
  }
  return true;
}

bool defers_gradients(const Descriptor& descriptor, const Rung& rung) {
  return rung.persistent_backward() && descriptor.layers > 1 && !is_layered(descriptor, rung);
}

std::int64_t lane_count(const Descriptor& descriptor, const Rung& rung) {
  // Of each layer that runs beside others, or of all: its steps and its products.
  if (is_layered(descriptor, rung) && rung.persistent()) return 2 * descriptor.layers;
  if (takes_halves(descriptor, rung, descriptor.time)) return 2;
  if (rung.persistent_backward()) return descriptor.training ? 2 : 1;
  if (spreads_gradients(descriptor, rung)) return kOtherWeightLane + 1;
  if (!rung.wavefront) return rung.inputs == InputProducts::kStreamed ? 2 : 1;
  return step_lanes(descriptor, rung);
}

namespace {

/// Products of float32 that go by parts (matmul/cuda/products.h) split the weights each time, which
/// pays from so many rows on, of weights that are large enough.
std::int64_t fewest_piece_steps(const Descriptor& descriptor) {
  constexpr std::int64_t kRows = 1024, kFewestRows = 64, kFewestWeights = std::int64_t{1} << 21;
  const std::int64_t weights = descriptor.gates() * descriptor.hidden * descriptor.hidden;
  const bool splits = descriptor.dtype == DType::kFloat32 && !descriptor.tf32 &&
                      descriptor.rows >= kFewestRows && weights >= kFewestWeights;
  return splits ? (kRows + descriptor.rows - 1) / descriptor.rows : 1;
}

}  // namespace

std::int64_t piece_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t time) {
  if (!is_layered(descriptor, rung)) return time;
  // A layer starts when the one below has finished a piece; a product of fewer steps than that
  // leaves most of the GPU idle.
  constexpr std::int64_t kPieces = 20, kMost = 16;
  if (!rung.persistent()) {
    return std::min(std::clamp(time / kPieces, fewest_piece_steps(descriptor), kMost), time);
  }
  // A launch costs as much as three steps, and a short product as much as a dozen.
  constexpr std::int64_t kLaunches = 5, kFewest = 8;
  return std::min(std::max((time + kLaunches - 1) / kLaunches, kFewest), time);
}

std::int64_t input_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                         std::int64_t time) {
  if (rung.inputs == InputProducts::kEachStep) return 1;
  // The first layer's input is all there from the beginning.
  if (layer == 0) return time;
  const std::int64_t steps = piece_steps(descriptor, rung, time);
  // Products that have a lane of their own are a piece ahead.
  return rung.persistent() && steps < time ? 2 * steps : steps;
}

}  // namespace sluice::kernels::recurrent::cuda
