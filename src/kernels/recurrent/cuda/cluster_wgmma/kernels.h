#pragma once

#include <array>

#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"

namespace sluice::kernels::recurrent::cuda {
struct CellKind;
}

/// The kernels that are compiled, a source file each cell and arithmetic (instance.cu.in).
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Of a cell and its arithmetic, by the number of warpgroups from kFewestGroups on: of
/// (LayerForward, Geometry, the inputs' tensor map).
using Kernels = std::array<const void*, kMostGroups + 1 - kFewestGroups>;

/// Those of a cell in 16 bits, or of an LSTM in TF32.
const Kernels& kernels_of(const CellKind& kind);

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
