#pragma once

#include "kernels/recurrent/cuda/streamed/arguments.h"

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::streamed {

struct Kernels {
  const void* forward;         ///< of (LayerForward, Geometry)
  const void* forward_beside;  ///< likewise, where Geometry::has_beside(); null: it never does
  const void* backward;        ///< of (LayerBackward, Geometry)
};

/// Those of a cell and storage (bfloat16 or float16).
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::streamed
