#pragma once

#include "kernels/recurrent/cuda/rung.h"

/// What a variant does with the layers of a descriptor.
namespace sluice::kernels::recurrent::cuda {

/// Whether layers run at the same time, in pieces of time.
bool is_layered(const Descriptor& descriptor, const Rung& rung);
/// Whether forward runs a sequence of so many steps in two halves: each layer's second half
/// overlaps with the first half of the layer above.
bool takes_halves(const Descriptor& descriptor, const Rung& rung, std::int64_t time);
/// Number of forward launches that need an exchange buffer each.
std::int64_t forward_exchanges(const Descriptor& descriptor, const Rung& rung);
/// Whether a layer's input is multiplied as scaled float16.
bool scales_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Whether a layer's input weights are packed as scaled float16, for that product or for backward.
bool scales_weights(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Number of weight matrices that may be scaled (scaled_weights.h).
std::int64_t scaled_matrices(const Descriptor& descriptor, const Rung& rung);
/// Whether weight gradients may be products of scaled float16.
bool scales_gradients(const Descriptor& descriptor, const Rung& rung);
/// Whether steps outside of launches multiply scaled float16 (scaled_steps.h).
bool scales_steps(const Descriptor& descriptor, const Rung& rung);
/// Number of products that such a backward step is cut into; the cells add their sums. One per gate
/// where the tiles of a single product would leave most of the GPU idle, else one.
std::int64_t parts_of_scaled_step(const Descriptor& descriptor);
/// The most products that other backward steps are cut into: one per gate, one per two gates, or
/// one. Runs with row lengths, steps that are one kernel and the last backward step have one.
std::int64_t parts_of_step(const Descriptor& descriptor, const Rung& rung);
/// Whether only the scaled form is packed of weights that have one, so that every run multiplies by
/// it, whatever its context.
bool has_scaled_weights_alone(const Descriptor& descriptor, const Rung& rung);
/// Whether any product reads a layer's input weights as they are, not scaled or transposed.
bool reads_plain_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Whether backward writes gate gradients as scaled float16, with a scale per row. The gradients of
/// all weights and inputs are then products of these.
bool scales_gates(const Descriptor& descriptor, const Rung& rung);
/// Whether a layer's weight gradients have so many multiplications that scaling their factors pays
/// (docs/performance/float32-and-tf32.md). `steps`: time steps times rows.
bool pays_to_scale(const Descriptor& descriptor, std::int64_t layer, std::int64_t steps);
/// Where backward writes the gate gradients of a layer. Gates that forward saved are of no more use
/// once the layer's backward steps have read them.
enum class GradientPlace {
  kWorkspace,
  kOwnGates,    ///< over the layer's saved gates: a step's thread writes where it has read
  kGatesAbove,  ///< over those of the layer above, whose launches have ended
  /// Over the layer's saved gates of the step after. A cluster's blocks write a step's gradients
  /// when they have dh from all of them, and so when all have read the gates of the step after.
  kNextGates,
};
GradientPlace gradient_place(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Whether products of weight gradients overlap with the launches of the layers below, which don't
/// wait for them.
bool defers_gradients(const Descriptor& descriptor, const Rung& rung);
/// Steps of a piece, if a run of `time` steps is cut into pieces so that layers overlap; otherwise
/// `time`.
std::int64_t piece_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t time);
/// Steps of a forward launch, if a layer that overlaps with no other takes its `time` steps in
/// several launches, so that its input products take less memory; otherwise `time`.
std::int64_t launch_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                          std::int64_t time);
/// Where a layer's input products lie. Layers above write their states after this layer's steps
/// have read the products.
enum class InputPlace {
  kWorkspace,
  kGatesOfTop,   ///< over gates that the top layer will save: each a step's, of the same row
  kStatesAbove,  ///< over h, c and gates of all layers above
};
InputPlace input_place(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Steps whose input products a layer's buffer holds; a piece begins at its first step modulo that.
std::int64_t input_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                         std::int64_t time);
/// Whether the gradients of a single training step run on streams of their own, because nothing
/// else would overlap with them.
bool spreads_gradients(const Descriptor& descriptor, const Rung& rung);
/// Those streams: for dh0, for the products with the layer's input, for all others.
inline constexpr std::int64_t kFirstStateLane = 1, kInputWeightLane = 2, kOtherWeightLane = 3;
/// Number of streams that steps run on at the same time.
std::int64_t step_lanes(const Descriptor& descriptor, const Rung& rung);
/// Number of streams that a variant uses.
std::int64_t lane_count(const Descriptor& descriptor, const Rung& rung);

}  // namespace sluice::kernels::recurrent::cuda
