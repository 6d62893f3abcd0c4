#pragma once

#include "kernels/recurrent/cuda/engine.h"

/// The products of a layer's input in TF32, of factors of float16: the weights scaled by their
/// largest, each row of the input by its own, so that no row says how exact another is.
namespace sluice::kernels::recurrent::cuda {

/// Queues to [.., rows, D*G*H] = the input of a layer where scales_input, times its weights, for
/// the steps of a piece.
void multiply_scaled_input(const Run& run, std::int64_t lane, std::int64_t layer,
                           const Piece& piece, float* to);

}  // namespace sluice::kernels::recurrent::cuda
