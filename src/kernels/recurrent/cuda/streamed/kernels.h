#pragma once

#include "kernels/recurrent/cuda/streamed/arguments.h"

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and storage (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::streamed {

struct Kernels {
  const void* forward;  ///< of (LayerForward, Geometry)
  /// Likewise, of an LSTM with kMoreCellGroups, of a GRU where Spread::has_beside().
  const void* forward_else;
  const void* backward;  ///< of (LayerBackward, Geometry)
};

/// Those of a cell and storage (bfloat16 or float16).
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::streamed
