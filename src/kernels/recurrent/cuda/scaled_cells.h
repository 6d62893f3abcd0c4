#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"

/// The pointwise part of a step in TF32 whose recurrent product is of scaled float16
/// (scaled_steps.h): of LSTMs and GRUs stored as float32.
namespace sluice::kernels::recurrent::cuda {

/// The state as the next step's product reads it.
struct ScaledState {
  void* values;         ///< float16 [rows, H], out; what a row has that has ended stays
  const float* scales;  ///< [rows], what takes them and products of them back: powers of two
};
/// `args.recurrent` are products of scaled states.
void scaled_cell_forward(cudaStream_t stream, const CellKind& kind, const CellForwardArgs& args,
                         const ScaledState& state);

/// What reaches a step's h through the recurrent product of the step after it.
struct ScaledProduct {
  const float* values;      ///< [parts, rows, H], which the cell adds up; null: nothing does
  const float* scales;      ///< [rows], what takes them back
  std::int64_t parts;       ///< at most one a gate
  std::int64_t part_width;  ///< from one to the next
};
/// Gate gradients, a row scaled by the largest of them.
struct ScaledGates {
  void* d_input;      ///< float16 [rows, G*H], out
  void* d_recurrent;  ///< likewise where it differs, else unused
  float* scales;      ///< [rows], out: what takes both back
};
/// `args.dh` is what reaches h around the product; null: nothing does. Gate gradients go nowhere
/// else. A block has a row's in its shared memory: H is kMostScaledUnits at most.
void scaled_cell_backward(cudaStream_t stream, const CellKind& kind, const CellBackwardArgs& args,
                          const ScaledProduct& product, const ScaledGates& to);
/// 16 bytes of each, of the 99 KB that every GPU has.
inline constexpr std::int64_t kMostScaledUnits = 6144;

}  // namespace sluice::kernels::recurrent::cuda
