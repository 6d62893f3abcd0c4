#pragma once

#include "base/dtype.h"
#include "kernels/recurrent/cuda/persistent/arguments.h"

namespace sluice::kernels::recurrent::cuda {

/// Moves pointers to the piece's first step, for launches that treat a piece as a whole sequence.
/// Lengths stay; the kernel subtracts the piece's beginning from them.
inline persistent::LayerForward take_piece(const persistent::LayerForward& args,
                                           base::DType storage) {
  persistent::LayerForward piece = args;
  persistent::Extent& extent = piece.extent;
  extent.time = extent.end - extent.begin;
  const std::int64_t first = std::int64_t{extent.begin} * extent.rows * extent.hidden;
  const auto element = static_cast<std::int64_t>(base::size_of(storage));
  const auto move = [&](void*& data, std::int64_t values) {
    if (data) data = static_cast<std::byte*>(data) + values * element;
  };
  move(piece.y, first * extent.directions);
  move(piece.h_states[0], first);
  move(piece.saved[0], 4 * first);
  if (piece.c_states[0]) piece.c_states[0] += first;
  if (piece.c_sequence) piece.c_sequence += first;
  return piece;
}

}  // namespace sluice::kernels::recurrent::cuda
