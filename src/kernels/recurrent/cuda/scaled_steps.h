#pragma once

#include "kernels/recurrent/cuda/engine.h"

/// The recurrent products of a layer's steps in TF32, where scales_steps: of factors of float16,
/// the weights scaled by their largest, states and gate gradients row by row. They are half of the
/// bytes that a step reads, where weights come from memory each time.
namespace sluice::kernels::recurrent::cuda {

/// The left factor of a step's product.
struct ScaledLeft {
  std::uint16_t* values;  ///< float16 [rows, depth]
  float* scales;          ///< [rows], what takes them back
};

/// Where forward has the state, [rows, H], scaled by the largest of the first one, or by one: no
/// later state is larger.
ScaledLeft scaled_state(const Run& run);
/// Where backward has the gate gradients [rows, G*H] of time t.
ScaledLeft scaled_gates(const Run& run, std::int64_t t);

/// Queues to [rows, G*H] = the scaled state times weight_hh's transpose, which scales are yet to
/// take back.
void multiply_scaled_state(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, float* to);
/// Queues to [rows, H] = the scaled gates of time t times weight_hh, likewise.
void multiply_scaled_gates(const Run& run, std::int64_t lane, std::int64_t layer,
                           std::int64_t direction, std::int64_t t, float* to);

}  // namespace sluice::kernels::recurrent::cuda
