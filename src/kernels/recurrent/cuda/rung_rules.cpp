#include "kernels/recurrent/cuda/rung_rules.h"

#include <algorithm>

#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/scaled_cells.h"
#include "kernels/recurrent/cuda/wide/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// cuBLASLt multiplies float16 fast where each row begins at 16 bytes: a multiple of so many.
constexpr std::int64_t kAligned = 8;
constexpr std::int64_t kFloatBytes = sizeof(float);

/// An LSTM or a GRU without anything beside its equations.
bool is_usual(const Descriptor& descriptor) {
  return (descriptor.cell == CellType::kLstm || descriptor.cell == CellType::kGru) &&
         !descriptor.has_extras() && !descriptor.projects();
}

/// Whether arrays share memory with states. Backward reads the saved gates of an LSTM once, and
/// they are as many as its gate gradients. Options of cells may read them again.
bool is_lstm_in_training(const Descriptor& descriptor) {
  return descriptor.training && descriptor.cell == CellType::kLstm && descriptor.directions == 1 &&
         !descriptor.has_extras();
}

}  // namespace

bool is_layered(const Descriptor& descriptor, const Rung& rung) {
  return rung.wavefront && descriptor.directions == 1 && descriptor.layers > 1 &&
         descriptor.time > 1;
}

bool takes_halves(const Descriptor& descriptor, const Rung& rung, std::int64_t time) {
  return rung.forward == Residence::kWide && wide::halves_pay(descriptor, time);
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

bool scales_steps(const Descriptor& descriptor, const Rung& rung) {
  // Layers of fewer weights have launches of their own, or steps that are one kernel; stacks of
  // such layers have not been measured (docs/performance/float32-and-tf32.md).
  constexpr std::int64_t kFewest = std::int64_t{1} << 23;
  const bool steps = !rung.persistent() || (descriptor.training && !rung.persistent_backward());
  if (!steps || !rung.scaled_products || !descriptor.tf32 || descriptor.time == 1) return false;
  if (descriptor.layers * descriptor.directions > 1 || !is_usual(descriptor)) return false;
  if (descriptor.training && !scales_gradients(descriptor, rung)) return false;
  return descriptor.hidden % kAligned == 0 && descriptor.hidden <= kMostScaledUnits &&
         descriptor.gates() * descriptor.hidden * descriptor.hidden >= kFewest;
}

namespace {

/// cuBLASLt's tiles of a product, of which a GPU takes so many at once: an H200's multiprocessors.
/// With fewer cuBLASLt would cut the depth by itself, and add up in a kernel of its own
/// (docs/performance/ladder.md; of scaled steps float32-and-tf32.md).
constexpr std::int64_t kTilesAtOnce = clusters_at_once(1);
std::int64_t tiles(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

}  // namespace

std::int64_t parts_of_scaled_step(const Descriptor& descriptor) {
  const std::int64_t each = tiles(descriptor.rows, 32) * tiles(descriptor.hidden, 64);
  return each * descriptor.gates() <= kTilesAtOnce ? descriptor.gates() : 1;
}

std::int64_t parts_of_step(const Descriptor& descriptor, const Rung& rung) {
  constexpr std::int64_t kFewest = std::int64_t{1} << 23;
  const bool one = descriptor.layers * descriptor.directions == 1 && is_usual(descriptor);
  const bool steps = rung.combined_gates && rung.fused_pointwise && !rung.persistent_backward();
  if (!one || !steps || descriptor.cell != CellType::kLstm) return 1;
  // Parts of rows begin where cuBLASLt's kernels for 16 bits want them alone if units are aligned.
  if (base::size_of(descriptor.dtype) != 2 || descriptor.hidden % kAligned != 0) return 1;
  if (descriptor.gates() * descriptor.hidden * descriptor.hidden < kFewest) return 1;
  if (descriptor.time == 1) return 1;
  const std::int64_t each = tiles(descriptor.rows, 128) * tiles(descriptor.hidden, 64);
  std::int64_t parts = std::min<std::int64_t>(descriptor.gates(), kMostParts);
  while (parts > 1 && each * parts > kTilesAtOnce) parts /= 2;
  return parts;
}

bool has_scaled_weights_alone(const Descriptor& descriptor, const Rung& rung) {
  return rung.persistent() || scales_steps(descriptor, rung);
}

bool reads_plain_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  return !has_scaled_weights_alone(descriptor, rung) || !scales_input(descriptor, rung, layer);
}

bool scales_weights(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  return scales_input(descriptor, rung, layer) || scales_gates(descriptor, rung);
}

std::int64_t scaled_matrices(const Descriptor& descriptor, const Rung& rung) {
  const std::int64_t each = descriptor.layers * descriptor.directions;
  if (scales_steps(descriptor, rung)) return 2 * each;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    if (scales_weights(descriptor, rung, layer)) return each;
  }
  return 0;
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

bool scales_gates(const Descriptor& descriptor, const Rung& rung) {
  if (descriptor.training && scales_steps(descriptor, rung)) return true;
  if (!scales_gradients(descriptor, rung)) return false;
  if (descriptor.cell != CellType::kLstm || descriptor.directions > 1) return false;
  if (rung.backward == Residence::kClusterWgmma) return true;
  if (rung.backward != Residence::kWide) return false;
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    if (!pays_to_scale(descriptor, layer, descriptor.time * descriptor.rows)) return false;
  }
  return true;
}

GradientPlace gradient_place(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  if (!is_lstm_in_training(descriptor)) return GradientPlace::kWorkspace;
  if (!rung.persistent_backward()) {
    const bool in_place = rung.fused_pointwise && !scales_gates(descriptor, rung);
    return in_place ? GradientPlace::kOwnGates : GradientPlace::kWorkspace;
  }
  // Gates and gradients of a row lie in the same bytes if both have 16 bits.
  const bool halves = base::size_of(descriptor.dtype) == 2;
  if (rung.backward == Residence::kClusterWgmma && halves) return GradientPlace::kNextGates;
  const bool top = layer + 1 == descriptor.layers;
  return top || is_layered(descriptor, rung) ? GradientPlace::kWorkspace
                                             : GradientPlace::kGatesAbove;
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

std::int64_t piece_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t time) {
  if (!is_layered(descriptor, rung)) return time;
  // A layer starts when the one below has finished a piece; a product of fewer steps than that
  // leaves most of the GPU idle.
  constexpr std::int64_t kPieces = 20, kMost = 16;
  if (!rung.persistent()) {
    return std::min(std::clamp<std::int64_t>(time / kPieces, 1, kMost), time);
  }
  // A launch costs as much as three steps, and a short product as much as a dozen.
  constexpr std::int64_t kLaunches = 5, kFewest = 8;
  return std::min(std::max((time + kLaunches - 1) / kLaunches, kFewest), time);
}

namespace {

/// The fewest steps of a launch, which costs as much as three, where a layer has several.
constexpr std::int64_t kFewestSteps = 32;

/// Whether forward's input products of a layer take so much memory that several launches are worth
/// while.
bool takes_launches(const Descriptor& descriptor, const Rung& rung) {
  constexpr std::int64_t kFewestBytes = std::int64_t{64} << 20;
  if (rung.forward != Residence::kClusterWgmma || !is_lstm_in_training(descriptor)) return false;
  const std::int64_t width = descriptor.gates() * descriptor.hidden;
  return descriptor.time >= 2 * kFewestSteps &&
         descriptor.time * descriptor.rows * width * kFloatBytes >= kFewestBytes;
}

/// Into how many pieces of time input products have to be cut to fit into the states of the layers
/// above.
std::int64_t pieces_in_states(const Descriptor& descriptor, std::int64_t layer) {
  const std::int64_t above = descriptor.layers - 1 - layer, gates = descriptor.gates();
  const auto storage = static_cast<std::int64_t>(base::size_of(descriptor.dtype));
  // Bytes of a unit: h, c and saved gates.
  const std::int64_t state = storage + kFloatBytes + gates * storage;
  return (gates * kFloatBytes + above * state - 1) / (above * state);
}

}  // namespace

std::int64_t launch_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                          std::int64_t time) {
  if (!takes_launches(descriptor, rung)) return time;
  std::int64_t launches = 0;
  if (layer + 1 < descriptor.layers) {
    launches = pieces_in_states(descriptor, layer);
  } else {
    // More than two pay if backward needs no large workspace.
    const bool alone = gradient_place(descriptor, rung, layer) == GradientPlace::kNextGates;
    launches = std::min<std::int64_t>(alone ? 4 : 2, descriptor.time / kFewestSteps);
  }
  return std::min((descriptor.time + launches - 1) / launches, time);
}

InputPlace input_place(const Descriptor& descriptor, const Rung& rung, std::int64_t layer) {
  if (!is_lstm_in_training(descriptor) || layer + 1 == descriptor.layers) {
    return InputPlace::kWorkspace;
  }
  if (rung.forward == Residence::kClusterWgmma) {
    const bool fits = pieces_in_states(descriptor, layer) == 1 || takes_launches(descriptor, rung);
    return fits ? InputPlace::kStatesAbove : InputPlace::kWorkspace;
  }
  const bool steps = is_layered(descriptor, rung) && !rung.persistent() && rung.fused_pointwise;
  // Products are float32.
  return layer == 0 && steps && descriptor.dtype == DType::kFloat32 ? InputPlace::kGatesOfTop
                                                                    : InputPlace::kWorkspace;
}

std::int64_t input_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                         std::int64_t time) {
  if (rung.inputs == InputProducts::kEachStep) return 1;
  const std::int64_t launch = launch_steps(descriptor, rung, layer, time);
  if (launch < time) return launch;
  // The first layer's input is all there from the beginning.
  if (layer == 0) return time;
  const std::int64_t steps = piece_steps(descriptor, rung, time);
  // Products that have a lane of their own are a piece ahead.
  return rung.persistent() && steps < time ? 2 * steps : steps;
}

}  // namespace sluice::kernels::recurrent::cuda
