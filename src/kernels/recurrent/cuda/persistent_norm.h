#pragma once

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/persistent/extra_arguments.h"

/// Layer norm around launches of persistent/: what they take of it, and what no step waits for.
namespace sluice::kernels::recurrent::cuda {

/// What a launch takes beside what extras do.
void bind_norm(const Run& run, std::int64_t layer, persistent::LayerForwardWithNorm& args);
void bind_norm(const Run& run, std::int64_t layer, persistent::LayerBackwardWithNorm& args);

/// Queues the norm of a piece's input products, before its steps, on the layer's stream.
void normalise_inputs(const Run& run, std::int64_t layer, const Piece& piece);
/// Queues the gradients of a piece's input products, after its turns.
void normalise_input_gradients(const Run& run, std::int64_t layer, const Piece& turns);

}  // namespace sluice::kernels::recurrent::cuda
