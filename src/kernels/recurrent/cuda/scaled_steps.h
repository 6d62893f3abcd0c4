#pragma once

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/scaled_cells.h"

/// The recurrent products of a layer's steps in TF32, where scales_steps: of factors of float16,
/// the weights scaled by their largest, states and gate gradients row by row. They are half of the
/// bytes that a step reads, where weights come from memory each time.
namespace sluice::kernels::recurrent::cuda {

/// Queues the scaling of a layer's first state `h0` [rows, H], which may be null, for the product
/// of its first step: a row by its largest number, or by one. No later state is larger.
void scale_first_state(const Run& run, std::int64_t lane, const std::byte* h0);
/// Where the state is.
ScaledState scaled_state(const Run& run);
/// Where backward has the gate gradients of time t.
ScaledGates scaled_gates(const Run& run, std::int64_t t);

/// Queues to [rows, G*H] = the scaled state times weight_hh's transpose, which scales are yet to
/// take back.
void multiply_scaled_state(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, float* to);
/// Queues to [rows, H] = the scaled gates of time t times weight_hh, likewise; or as the sum of
/// [parts, rows, H], one part or one a gate.
void multiply_scaled_gates(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, std::int64_t t, std::int64_t parts, float* to);

}  // namespace sluice::kernels::recurrent::cuda
