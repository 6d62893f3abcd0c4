#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// How the recurrent weights of one pass lie in the registers of a group.
struct Residence {
  int units, blocks;      ///< of a block, of the group
  int cluster;            ///< blocks that share the depth
  int bands;              ///< of a block's matrix (band_rows)
  int loads, most_loads;  ///< 32 of the depth a warp: in use, and compiled

  std::int64_t bytes() const { return std::int64_t{blocks} * bands * most_loads * 8 * 2 * 32 * 16; }
};

/// Recurrent weights in the order in which the threads of a group load them.
struct PackWeights {
  const float* from;  ///< [G*H, H]
  int gates, hidden;
  Residence residence;
  void* to;
};
/// Forward multiplies the rows of a block's gates with h.
void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args);
/// Backward multiplies the columns of a cluster's units with the gradients of all gates.
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
