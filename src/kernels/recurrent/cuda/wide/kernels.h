#pragma once

#include <array>

#include "kernels/recurrent/cuda/wide/arguments.h"

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and arithmetic (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::wide {

/// Of a cell and its arithmetic, by the number of stages from kFewestStages on; the last ones are
/// for all that have more than kRegisterStages.
struct Kernels {
  std::array<const void*, kKernels> forward,  ///< of (LayerForward, Geometry)
      backward;                               ///< of (LayerBackward, Geometry)
};

/// Those of a cell and its arithmetic: TF32 in float32.
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::wide
