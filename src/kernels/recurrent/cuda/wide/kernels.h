#pragma once

#include <array>

#include "kernels/recurrent/cuda/wide/arguments.h"

/// The kernels that are compiled, a source file each cell and arithmetic (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::wide {

/// Of a cell and its arithmetic, by the number of stages that have their weights in registers, from
/// kFewestStages on.
struct Kernels {
  std::array<const void*, kRegisterStages - kFewestStages + 1>
      forward,   ///< of (LayerForward, Geometry)
      backward;  ///< of (LayerBackward, Geometry)
};

/// Those of a cell and its arithmetic: TF32 in float32.
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::wide
