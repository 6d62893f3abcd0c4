#pragma once

#include "kernels/recurrent/cuda/rung.h"

/// What a rung does with the layers of a descriptor.
namespace sluice::kernels::recurrent::cuda {

/// Whether layers run beside each other, in pieces of time.
bool is_layered(const Descriptor& descriptor, const Rung& rung);
/// Whether forward takes a sequence of so many steps in two halves, each layer's second half beside
/// the first one of the layer above.
bool takes_halves(const Descriptor& descriptor, const Rung& rung, std::int64_t time);
/// Launches of forward that have an exchange each.
std::int64_t forward_exchanges(const Descriptor& descriptor, const Rung& rung);
/// Whether the product of a layer's input is one of scaled float16.
bool scales_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Whether a layer's input weights are packed as scaled float16: for that, or for backward.
bool scales_weights(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Matrices of weights that may be scaled: scaled_weights.h.
std::int64_t scaled_matrices(const Descriptor& descriptor, const Rung& rung);
/// Whether weight gradients may be products of scaled float16.
bool scales_gradients(const Descriptor& descriptor, const Rung& rung);
/// Whether the recurrent products of steps that are no launch are products of scaled float16
/// (scaled_steps.h).
bool scales_steps(const Descriptor& descriptor, const Rung& rung);
/// Into how many products a step back is cut there, whose sums the cells add up: one a gate where
/// the tiles of one would leave most of the GPU idle, else one.
std::int64_t parts_of_scaled_step(const Descriptor& descriptor);
/// Into how many products other steps back are cut at most: one a gate, one for two gates, or one.
/// Runs with row lengths, steps that are one kernel and the last turn have one.
std::int64_t parts_of_step(const Descriptor& descriptor, const Rung& rung);
/// Whether runs multiply by scaled weights wherever there are any, whatever their context: these
/// are all that is packed.
bool has_scaled_weights_alone(const Descriptor& descriptor, const Rung& rung);
/// Whether any product reads a layer's input weights as they are, not scaled or transposed.
bool reads_plain_input(const Descriptor& descriptor, const Rung& rung, std::int64_t layer);
/// Whether backward leaves gate gradients as scaled float16, each row by its own scale, of which
/// the gradients of all weights and inputs are products then.
bool scales_gates(const Descriptor& descriptor, const Rung& rung);
/// Whether weight gradients of a layer have so many multiplications that scaling factors pays
/// (docs/performance/float32-and-tf32.md), with so many steps times rows.
bool pays_to_scale(const Descriptor& descriptor, std::int64_t layer, std::int64_t steps);
/// Whether products of weight gradients run beside the launches of the layers below, which don't
/// wait for them.
bool defers_gradients(const Descriptor& descriptor, const Rung& rung);
/// Steps of the pieces that a run of `time` steps is cut into, so that layers can run beside each
/// other; all of them if they don't.
std::int64_t piece_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t time);
/// Steps whose input products a layer's buffer holds; a piece begins at its first step modulo that.
std::int64_t input_steps(const Descriptor& descriptor, const Rung& rung, std::int64_t layer,
                         std::int64_t time);
/// Whether what a single step of training gives its gradients runs on streams of its own: nothing
/// else runs beside it.
bool spreads_gradients(const Descriptor& descriptor, const Rung& rung);
/// Those streams: of dh0, of the products with the layer's input, and of all else.
inline constexpr std::int64_t kFirstStateLane = 1, kInputWeightLane = 2, kOtherWeightLane = 3;
/// Streams that steps run on beside each other.
std::int64_t step_lanes(const Descriptor& descriptor, const Rung& rung);
/// Streams that a rung runs on.
std::int64_t lane_count(const Descriptor& descriptor, const Rung& rung);

}  // namespace sluice::kernels::recurrent::cuda
