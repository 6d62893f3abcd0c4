#pragma once

#include <array>

#include "kernels/recurrent/cuda/wide/arguments.h"

/// The kernels that are compiled, a source file each cell and storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::wide {

/// Stages of the ring that a tile's depth may take.
inline constexpr int kFewestStages = 2, kMostStages = 4;

/// Of a cell and storage, by number of stages from kFewestStages on.
struct Kernels {
  std::array<const void*, kMostStages - kFewestStages + 1>
      forward,                        ///< of (LayerForward, Geometry)
      backward;                       ///< of (LayerBackward, Geometry)
  int forward_state, backward_state;  ///< bytes that a thread keeps of each tile
};

/// Those of a cell and storage (bfloat16 or float16).
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::wide
